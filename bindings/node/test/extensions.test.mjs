/** What not every store can do: how JavaScript has it. What it does is in the scenarios. */
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { after, before, test } from "node:test";
import { connect, Hlc, InvalidArgumentError, UnsupportedError } from "statestore";
import { startServer } from "statestore/testing";
import { proxyOf, withoutExtensions } from "./proxy.mjs";
import { clientOf } from "./system.mjs";

const VERSION = Hlc.parse("000000000000007:00001:StateStore");
let server;
let client;

before(async () => {
  server = await startServer();
  client = await connect(server.url);
});

after(async () => {
  await client?.close();
  await server?.stop();
});

test("wrong arguments are named", async () => {
  const wrong = [
    [() => client.set("k", "v", { condition: { ifVersion: "7:1:StateStore" } }), /ifVersion must be an Hlc, not string/],
    [() => client.set("k", "v", { condition: {} }), /ifVersion must be an Hlc, not undefined/],
    [() => client.set("k", "v", { condition: { version: VERSION } }), /condition has no member version/],
    [() => client.del("k", { ifVersion: 7 }), /ifVersion must be an Hlc, not number/],
    [() => client.delMany(["k"], { ifVersion: VERSION }), /delMany has no option ifVersion/],
    [() => client.get("k", { remaining: "yes" }), /remaining must be a boolean, not string/],
    [() => client.getMany(["k"], { eventual: 1 }), /eventual must be a boolean, not number/],
    [() => client.transact([]), /transaction must be what transaction\(\) gives, not an array/],
    [async () => client.transaction().set("k", "v", { persist: true }), /transaction.set has no option persist/],
    [async () => client.transaction().set("k", 7), /value must be a string, a Buffer or a Uint8Array/],
  ];
  for (const [call, message] of wrong) {
    await assert.rejects(call, (error) => error instanceof TypeError && message.test(error.message) && (assert.match(error.message, message), true));
  }
});

test("a transaction can be sent again and continued, and keeps what it was given", async () => {
  const value = Buffer.from("1");
  const transaction = client.transaction().set("a", value);
  value.fill("x");
  assert.equal((await client.transact(transaction)).applied, true);
  assert.equal((await client.get("a")).value.toString(), "1");
  const outcome = await client.transact(transaction.del("a").del("none"));
  assert.equal(outcome.versions.length, 3);
  assert.equal(outcome.versions[2], null);
  assert.equal(inspect(transaction), "Transaction { length: 3 }");
  assert.equal(await client.get("a"), null);
});

test("a store without transactions refuses them", async (t) => {
  const plain = await clientOf(t, await proxyOf(t, server, withoutExtensions));
  await assert.rejects(plain.transact(plain.transaction().set("p", "1")), UnsupportedError);
});

test("a scan returns entries with their remaining times", async () => {
  await client.set("scan/a", "1", { expiresIn: 60_000 });
  const { version } = await client.set("scan/b", "2");
  assert.equal((await client.capabilities()).scanValues, true);
  const found = new Map();
  for await (const [key, entry] of client.scanEntries("scan/*")) {
    found.set(String(key), entry);
  }
  assert.deepEqual([...found.keys()].sort(), ["scan/a", "scan/b"]);
  assert.deepEqual(found.get("scan/b"), { value: Buffer.from("2"), version, expiresIn: Infinity });
  const { expiresIn } = found.get("scan/a");
  assert(expiresIn > 0 && expiresIn <= 60_000);
});

test("on a store that returns no values, a scan for entries needs the fallback", async (t) => {
  const plain = await clientOf(t, await proxyOf(t, server, withoutExtensions));
  const { version } = await plain.set("plain/a", "1", { expiresIn: 60_000 });
  assert.equal((await plain.capabilities()).scanValues, false);
  await assert.rejects(plain.scanEntries("plain/*").next(), UnsupportedError);
  const entries = plain.scanEntries("plain/*", { fallback: true });
  assert.deepEqual((await entries.next()).value, [Buffer.from("plain/a"), { value: Buffer.from("1"), version, expiresIn: "unknown" }]);
  assert.equal((await entries.next()).done, true);
});

test("an invalid operation is named", async () => {
  const transaction = client.transaction().set("a", "1").set("b", "2", { expiresIn: 0 });
  await assert.rejects(client.transact(transaction), (error) => error instanceof InvalidArgumentError && error.operation === 1);
  await assert.rejects(client.get(""), (error) => error.operation === undefined);
});

test("an unknown remaining time is not taken for one without an end", async () => {
  await client.set("key", "value", { expiresIn: 60_000 });
  const unknown = await client.get("key");
  assert.equal(unknown.expiresIn, "unknown");
  await assert.rejects(client.set("key", "value", { expiresIn: unknown.expiresIn }), { name: "TypeError", message: /^expiresIn must be/ });
  await assert.rejects(client.update("key", () => "x", { expiresIn: unknown.expiresIn }), { name: "TypeError", message: /^expiresIn must be/ });
  const { expiresIn } = await client.get("key", { remaining: true });
  assert(expiresIn > 0 && expiresIn <= 60_000);
  assert.equal(await client.get("none", { remaining: true }), null);
  // The times of entries go back in as they came out, without an end too.
  await client.set("key", "value", { expiresIn });
  await client.set("key", "value", { expiresIn: Infinity });
  assert.equal((await client.get("key", { remaining: true })).expiresIn, Infinity);
  await client.transact(client.transaction().set("key", "x", { expiresIn: Infinity }));
  assert.equal((await client.getMany(["key"], { remaining: true }))[0].expiresIn, Infinity);
});

test("the function of update gets the remaining time of the entry", async () => {
  const given = [];
  const note = (old) => {
    given.push(old?.expiresIn);
    return "new";
  };
  await client.set("timed", "value", { expiresIn: 60_000 });
  await client.update("timed", note);
  await client.set("timed", "value");
  await client.update("timed", note);
  await client.update("timed", note, { expiresIn: 60_000 });
  await client.del("timed");
  await client.update("timed", note);
  const [left, ...others] = given;
  assert(left > 0 && left <= 60_000);
  // An update with an expiry of its own does not ask for the time.
  assert.deepEqual(others, [Infinity, "unknown", undefined]);
});

test("a guard takes conditions too", async () => {
  await client.withLock("lock", async (guard) => {
    const { version } = await guard.set("guarded", "one");
    assert.deepEqual(await guard.set("guarded", "two", { condition: { ifVersion: VERSION } }), { applied: false, version });
    assert.deepEqual(await guard.del("guarded", { ifVersion: VERSION }), { is: "mismatch", version });
    assert.deepEqual(await guard.vdel("guarded", "one", { ifVersion: VERSION }), { is: "mismatch", version });
    assert.deepEqual(await guard.vdel("guarded", "two"), { is: "mismatch", version: null });
    assert.equal((await guard.del("guarded", { ifVersion: version })).is, "deleted");
  });
});

test("text comes out where the client has an encoding", async () => {
  const texts = await connect(server.url, { encoding: "utf8" });
  try {
    await texts.transact(texts.transaction().set("ä", "ö"));
    const [found] = await texts.getMany(["ä"], { remaining: true });
    assert.deepEqual([found.value, found.expiresIn], ["ö", Infinity]);
  } finally {
    await texts.close();
  }
});
