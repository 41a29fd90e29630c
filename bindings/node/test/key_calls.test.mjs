/** Calls that need no value: whether a key is there, its time, counters, and the round trip. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClosedError, connect, InvalidArgumentError } from "statestore";
import { clientOf, serverOf } from "./system.mjs";

test("exists and ttl report an absent key, one that expires and one that does not", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  await client.set("stays", "value");
  await client.set("goes", "", { expiresIn: 60_000 });
  const keys = ["stays", "goes", "none"];
  assert.deepEqual(await Promise.all(keys.map((key) => client.exists(key))), [true, true, false]);
  const [stays, goes, none] = await Promise.all(keys.map((key) => client.ttl(key, { timeout: 30_000 })));
  assert.deepEqual([stays, none], [Infinity, null]);
  assert(goes > 0 && goes <= 60_000, `${goes} ms`);
  assert.equal(await client.exists("stays", { eventual: true }), true);
});

test("touch sets the time of a key and keeps its value", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  assert.equal(await client.touch("none", 1_000), false);
  assert.equal(await client.exists("none"), false);
  await client.set("key", "value");
  assert.equal(await client.touch("key", 60_000), true);
  const left = await client.ttl("key");
  assert(left > 0 && left <= 60_000, `${left} ms`);
  assert.equal(await client.touch("key", Infinity, { persist: true }), true);
  assert.equal(await client.ttl("key"), Infinity);
  assert.equal(String((await client.get("key")).value), "value");
  await assert.rejects(client.touch("key", 50), { code: "InvalidArgument", outcome: "not_done" });
});

test("incr adds to a number, which keeps its time", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  assert.equal(await client.incr("count"), 1);
  assert.equal(await client.incr("count", 5), 6);
  assert.equal(await client.incr("count", -10n), -4n);
  assert.equal(String((await client.get("count")).value), "-4");
  assert.equal(await client.incr("new", 2, { expiresIn: 60_000 }), 2);
  assert.equal(await client.incr("new"), 3);
  const left = await client.ttl("new");
  assert(left > 0 && left <= 60_000, `${left} ms`);

  const text = await clientOf(t, server, { encoding: "utf8" });
  await Promise.all(Array.from({ length: 40 }, (_, index) => (index % 2 === 0 ? client : text).incr("shared", 2)));
  assert.equal((await text.get("shared")).value, "80");
});

test("incr writes nothing that it cannot return, and adds to nothing but numbers", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const largest = String(2n ** 63n - 1n);
  const refused = [
    ["9007199254740991", 1, /safe integer.*bigint/],
    ["9007199254740993", 0, /safe integer/],
    [largest, 1n, /64 bits/],
    ["9223372036854775808", 0n, /not a decimal number/],
    ...["", "one", "01", "-0", "+1", " 1", "1.0", "1\n"].map((value) => [value, 1, /the value of "key" is not a decimal number/]),
  ];
  for (const [value, by, message] of refused) {
    const { version } = await client.set("key", value);
    await assert.rejects(client.incr("key", by), (error) => {
      assert(error instanceof InvalidArgumentError, error);
      assert.equal(error.outcome, "not_done");
      assert.match(error.message, message);
      return true;
    });
    assert((await client.get("key")).version.equals(version), JSON.stringify(value));
  }
  await client.set("key", "9007199254740991");
  assert.equal(await client.incr("key", 1n), 9007199254740992n);
  await client.set("key", largest);
  assert.equal(await client.incr("key", 0n), 2n ** 63n - 1n);
});

test("ping returns the round trip in milliseconds", async (t) => {
  const server = await serverOf(t);
  const client = await connect(server.url);
  const { sent } = client.counters();
  const took = await client.ping({ timeout: 30_000 });
  assert(took > 0 && took <= 30_000, `${took} ms`);
  assert((await client.ping()) > 0);
  assert.equal(client.counters().sent, sent + 2);
  await client.close();
  await assert.rejects(client.ping(), ClosedError);
});
