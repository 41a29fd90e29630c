/** What things show of themselves, and what becomes of them in a copy; text instead of bytes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { Client, connect, Hlc, TimedOutError } from "statestore";
import { run } from "./child.mjs";
import { clientOf, serverOf } from "./system.mjs";

test("util.inspect shows every object", async (t) => {
  const client = await clientOf(t, await serverOf(t), { clientId: "me", encoding: "utf8" });
  const guard = await client.lock("door");
  const observer = await client.observe("key");
  const matching = await client.observeMatching("line1/*");
  const mirror = await client.mirror("line1/*");
  const lead = await client.election("chief").campaign("ann");
  const shown = [
    [client, "Client { clientId: 'me', state: 'connected' }"],
    [guard, `Guard { name: 'door', token: Hlc ${guard.token}, isValid: true }`],
    [observer, "Observer { key: 'key' }"],
    [matching, "MatchObserver { pattern: 'line1/*' }"],
    [mirror, "Mirror { pattern: 'line1/*', size: 0 }"],
    [client.lease("door"), "Lease { name: 'door' }"],
    [client.election("chief"), "Election { name: 'chief' }"],
    [{ lead }, `{\n  lead: Leadership {\n    guard: Guard { name: 'chief', token: Hlc ${lead.guard.token}, isValid: true }\n  }\n}`],
    [guard.token, `Hlc ${guard.token}`],
  ];
  const flat = (text) => text.replace(/\s+/g, " ");
  for (const [thing, text] of shown) {
    assert.equal(flat(inspect(thing, { depth: 5 })), flat(text));
  }
  await guard.release();
  await lead.resign();
  observer.close();
  assert.match(inspect(guard), /isValid: false,\s+lostReason: 'released'/);
  assert.match(inspect(observer), /lostReason: 'closed'/);
});

test("a version is its text in a copy, and two versions are compared by it", () => {
  const [one, two] = [Hlc.parse("1:0:a"), Hlc.parse("2:0:a")];
  const copy = structuredClone({ version: one });
  assert.deepEqual(copy, { version: { text: String(one) } });
  assert(Hlc.parse(copy.version.text).equals(one));
  assert.deepEqual(one, Hlc.parse("1:0:a"));
  assert.notDeepEqual(one, two);
  assert.equal(JSON.stringify({ one }), `{"one":"${one}"}`);
});

test("with an encoding, keys, values and names come out as text", async (t) => {
  const server = await serverOf(t);
  const [client, bytes] = [await clientOf(t, server, { encoding: "utf8" }), await clientOf(t, server)];
  const observer = await client.observe("schlüssel", { overflow: "all" });
  assert.equal(observer.key, "schlüssel");
  await client.set("schlüssel", "\ufeffgröße");
  assert.equal((await client.get("schlüssel")).value, "\ufeffgröße");
  assert.equal((await observer.next()).value, "\ufeffgröße");
  assert.deepEqual((await client.getMany(["schlüssel", "none"])).map((entry) => entry?.value), ["\ufeffgröße", undefined]);
  const keys = [];
  for await (const key of client.scan("*")) {
    keys.push(key);
  }
  assert.deepEqual(keys, ["schlüssel"]);
  const [key, entry] = (await client.scanEntries("*").next()).value;
  assert.deepEqual([key, entry.value], ["schlüssel", "\ufeffgröße"]);
  const matching = await client.observeMatching("schl*");
  const event = await matching.next();
  assert.deepEqual([matching.pattern, event.key, event.value], ["schl*", "schlüssel", "\ufeffgröße"]);
  assert.equal((await client.update("schlüssel", (old) => `${old.value}!`)).is, "applied");
  assert.equal((await client.get("schlüssel")).value, "\ufeffgröße!");

  const lease = client.lease("tür", { holder: "änn", resume: true });
  const { guard } = await lease.acquire();
  assert.deepEqual([lease.name, guard.name, guard.holder.name, (await lease.holder()).holder.name], ["tür", "tür", "änn", "änn"]);
  const held = await (await bytes.lease("tür").observe()).next();
  assert(Buffer.isBuffer(held.holder.name));
  const election = client.election("wahl");
  const lead = await election.campaign("wert");
  assert.deepEqual([election.name, lead.guard.name, (await election.leader()).value], ["wahl", "wahl", "wert"]);
  await assert.rejects(connect(server.url, { encoding: "hex" }), { code: "InvalidArgument", message: /^encoding must be utf8/ });
});

test("a value that does not decode is an error with its bytes, and the next item is not lost", async (t) => {
  const server = await serverOf(t);
  const [client, bytes] = [await clientOf(t, server, { encoding: "utf-8" }), await clientOf(t, server)];
  const observer = await client.observe("key", { overflow: "all" });
  await bytes.set("key", Buffer.from([0xff]));
  const isNoText = (error) => error instanceof TypeError && error.bytes.equals(Buffer.from([0xff])) && /not UTF-8/.test(error.message);
  await assert.rejects(client.get("key"), isNoText);
  await assert.rejects(client.update("key", () => "never"), isNoText);
  assert((await bytes.get("key")).value.equals(Buffer.from([0xff])));
  await bytes.set("key", "text");
  await assert.rejects(observer.next(), isNoText);
  assert.equal((await observer.next()).value, "text");
});

test("a listener receives the next text, and the error is an uncaughtException", async (t) => {
  const { exit, printed } = await run(t, await serverOf(t), `
    const [client, bytes] = [await connect(url, { encoding: "utf8" }), await connect(url)];
    process.on("uncaughtException", (error) => console.log(error.name, error.bytes));
    const told = new Promise((resolve) => client.observe("key", resolve, { overflow: "all" }).then(async () => {
      await bytes.set("key", Buffer.from([0xff]));
      await bytes.set("key", "text");
    }));
    console.log((await told).value);
    await Promise.all([client.close(), bytes.close()]);
  `);
  assert.deepEqual([exit, printed], [0, "TypeError <Buffer ff>\ntext"]);
});

test("a wait for the next item ends at its timeout, and misses nothing", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const observer = await client.observe("key");
  for (const timeout of [0, 20]) {
    await assert.rejects(observer.next({ timeout }), (error) => {
      assert(error instanceof TimedOutError);
      assert.deepEqual([error.outcome, error.code], ["not_done", "TimedOut"]);
      return true;
    });
  }
  await client.set("key", "value");
  assert.equal((await observer.next({ timeout: 30_000 })).value.toString(), "value");
  const holders = await client.lease("door").observe();
  assert.equal(await holders.next({ timeout: 30_000 }), null);
  await assert.rejects(holders.next({ timeout: 1 }), TimedOutError);
});

test("a client is an instance of the exported class, which only connect makes", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  assert(client instanceof Client);
  assert.equal(client.constructor, Client);
  assert.throws(() => new Client(server.url), { name: "TypeError", message: "a Client has no public constructor; use connect" });
});
