/** Mirrors: local copies of all entries whose keys match a pattern. */
import assert from "node:assert/strict";
import { inspect } from "node:util";
import { test } from "node:test";
import { UnsupportedError } from "statestore";
import { proxyOf, withoutExtensions } from "./proxy.mjs";
import { clientOf, serverOf } from "./system.mjs";

/** A mirror that has all entries. */
async function mirrorOf(client, pattern, options) {
  const mirror = await client.mirror(pattern, options);
  await mirror.synced();
  return mirror;
}

/** An event in a short form: its word, its key and its value. */
function short({ is, key, value }) {
  return [is, key, value].filter((part) => part !== undefined).join(" ");
}

/** The events up to the first of this kind. */
async function until(changes, last) {
  const events = [];
  while (events.at(-1) !== last) {
    events.push(short(await changes.next()));
  }
  return events;
}

/** The keys and values of a mirror. */
function contents(mirror) {
  return Object.fromEntries(mirror.snapshot().map(([key, { value }]) => [String(key), String(value)]));
}

test("a synced mirror has all entries and follows their changes", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const { version: old } = await client.set("line1/ä", "1");
  await client.set("line2/a", "2");
  const mirror = await mirrorOf(client, "line1/*");
  assert.deepEqual([String(mirror.pattern), mirror.size, mirror.staleSince(), mirror.lostReason(), mirror.error()], ["line1/*", 1, null, null, null]);
  const entry = { value: Buffer.from("1"), version: old, expiresIn: "unknown" };
  for (const key of ["line1/ä", Buffer.from("line1/ä"), new TextEncoder().encode("line1/ä")]) {
    assert.deepEqual(mirror.get(key), entry);
    assert(mirror.has(key));
  }
  assert.equal(mirror.get("line2/a"), null);
  assert.throws(() => mirror.get(7), TypeError);
  const [changes, before] = [mirror.changes(), mirror.snapshot()];
  const { version } = await client.set("line1/b", "3");
  assert.deepEqual(await changes.next(), { is: "set", key: Buffer.from("line1/b"), value: Buffer.from("3"), version });
  assert.deepEqual(contents(mirror), { "line1/ä": "1", "line1/b": "3" });
  await client.del("line1/ä");
  assert.equal(short(await changes.next()), "deleted line1/ä");
  assert.deepEqual(contents(mirror), { "line1/b": "3" });
  assert.deepEqual(before, [[Buffer.from("line1/ä"), entry]]);
  assert.equal(inspect(mirror).includes("size: 1"), true);
});

test("keys that are no text have entries of their own", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const keys = [Buffer.from([0x61, 0xff]), Buffer.from([0x61, 0xfe]), Buffer.from("a\ufffd"), Buffer.from("a\u00ff")];
  for (const [index, key] of keys.entries()) {
    await client.set(key, String(index));
  }
  const mirror = await mirrorOf(client, "a*");
  assert.deepEqual(keys.map((key) => String(mirror.get(key).value)), ["0", "1", "2", "3"]);
  assert.equal(String(mirror.get("a\u00ff").value), "3");
  assert.equal(mirror.size, 4);
});

test("a mirror without keys is synced, and changes from the start report that", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const mirror = await client.mirror("*");
  assert.notEqual(mirror.staleSince(), null);
  const changes = mirror.changes();
  assert.deepEqual(await until(changes, "complete"), ["complete"]);
  await mirror.synced({ timeout: Infinity });
  assert.equal(mirror.size, 0);
});

test("changes that are read slowly have the newest state of each key", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const mirror = await mirrorOf(client, "*");
  const [slow, fast] = [mirror.changes(), mirror.changes()];
  for (let i = 1; i <= 10; i += 1) {
    for (const key of ["a", "b"]) {
      await client.set(key, String(i));
      assert.equal(short(await fast.next()), `set ${key} ${i}`);
    }
  }
  assert.deepEqual([short(await slow.next()), short(await slow.next())], ["set a 10", "set b 10"]);
  await assert.rejects(slow.next({ timeout: 1 }), { code: "TimedOut", outcome: "not_done" });
  const reason = new Error("no longer needed");
  await assert.rejects(slow.next({ signal: AbortSignal.abort(reason) }), { code: "Cancelled", cause: reason });
  const controller = new AbortController();
  const waiting = [slow.next({ signal: controller.signal }), slow.next(), slow.next()];
  controller.abort(reason);
  await assert.rejects(waiting[0], { code: "Cancelled", cause: reason });
  await client.set("c", "1");
  assert.equal(short(await waiting[1]), "set c 1");
  slow.close();
  assert.equal(await waiting[2], undefined);
  assert.equal(short(await fast.next()), "set c 1");
});

test("changes end if the events of too many keys wait", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const mirror = await mirrorOf(client, "*", { maxKeys: 1 });
  const [slow, fast] = [mirror.changes(), mirror.changes()];
  for (const key of ["a", "b", "c"]) {
    await client.set(key, "1");
    assert.equal(short(await fast.next()), `set ${key} 1`);
    await client.del(key);
    assert.equal(short(await fast.next()), `deleted ${key}`);
  }
  assert.equal(await slow.next(), undefined);
  assert.deepEqual([slow.isLagging(), fast.isLagging(), mirror.lostReason()], [true, false, null]);
});

test("leaving the loop over changes ends them, but not the mirror", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const mirror = await mirrorOf(client, "*");
  const changes = mirror.changes();
  await client.set("a", "1");
  for await (const event of changes) {
    assert.equal(short(event), "set a 1");
    break;
  }
  assert.equal(await changes.next(), undefined);
  assert.deepEqual([changes.isLagging(), mirror.lostReason()], [false, null]);
});

test("a mirror is stale from a lost connection until the differences have arrived", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const client = await clientOf(t, proxy, { reconnectDelayMin: 1, reconnectDelayMax: 10 });
  const writer = await clientOf(t, server);
  await writer.setMany({ a: "1", b: "1", c: "1" });
  const mirror = await mirrorOf(client, "*");
  const changes = mirror.changes();
  const lost = new Promise((resolve) => client.on("state", (state) => state.is === "reconnecting" && resolve()));
  proxy.cut();
  await lost;
  await assert.rejects(mirror.synced({ timeout: 1 }), { code: "TimedOut" });
  const since = mirror.staleSince();
  assert(since > 0 && since <= performance.now());
  assert.equal(String(mirror.get("b").value), "1");
  await writer.set("a", "2");
  await writer.del("b");
  proxy.restore();
  const [first, ...differences] = await until(changes, "resynced");
  assert.deepEqual([first, differences.pop(), differences.sort()], ["resync", "resynced", ["deleted b", "set a 2"]]);
  await mirror.synced();
  assert.equal(mirror.staleSince(), null);
  assert.deepEqual(contents(mirror), { a: "2", c: "1" });
});

test("a restart of the store without its entries empties the mirror", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { reconnectDelayMin: 1, reconnectDelayMax: 10 });
  await client.set("a", "1");
  const mirror = await mirrorOf(client, "*");
  const changes = mirror.changes();
  await server.kill();
  await serverOf(t, { port: Number(new URL(server.url).port) });
  const events = await until(changes, "resynced");
  assert(events.includes("deleted a"), String(events));
  await mirror.synced();
  assert.equal(mirror.size, 0);
});

for (const [options, message] of [
  [{ maxBytes: 5 }, /the entries have 6 bytes; 5 are allowed \(maxBytes\)/],
  [{ maxKeys: 2 }, /more than 2 keys match/],
]) {
  test(`entries beyond ${Object.keys(options)} end the mirror with its last state`, async (t) => {
    const client = await clientOf(t, await serverOf(t));
    await client.setMany({ a: "123", b: "" });
    const mirror = await mirrorOf(client, "*", options);
    const changes = mirror.changes();
    // A shorter value leaves space for others.
    await client.set("a", "1");
    assert.equal(short(await changes.next()), "set a 1");
    await client.set("b", "12");
    assert.equal(short(await changes.next()), "set b 12");
    await client.set("c", "");
    for await (const event of changes) {
      assert.equal(short(event).trim(), "set c");
    }
    await assert.rejects(mirror.synced(), { code: "TooLarge", outcome: "not_done", message });
    assert.deepEqual([mirror.lostReason(), mirror.error().code], ["refused", "TooLarge"]);
    assert.notEqual(mirror.staleSince(), null);
    assert.equal(String(mirror.get("b").value), "12");
  });
}

test("a mirror ends when it, its client or its signal ends it", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const controller = new AbortController();
  await client.set("a", "1");
  const [closed, given, other] = [await mirrorOf(client, "*"), await mirrorOf(client, "*", { signal: controller.signal }), await mirrorOf(client, "*")];
  const [ofClosed, ofGiven, ofOther] = [closed, given, other].map((mirror) => mirror.changes().next());
  closed.close();
  assert.equal(await ofClosed, undefined);
  await assert.rejects(closed.synced(), { code: "Closed" });
  assert.deepEqual([closed.lostReason(), closed.error()], ["closed", null]);
  const reason = new Error("the request is over");
  controller.abort(reason);
  assert.equal(await ofGiven, undefined);
  await assert.rejects(given.synced(), { code: "Cancelled", cause: reason });
  assert.equal(other.lostReason(), null);
  await client.close();
  assert.equal(await ofOther, undefined);
  assert.deepEqual([other.lostReason(), other.error(), String(other.get("a").value)], ["closed", null, "1"]);
  assert.notEqual(other.staleSince(), null);
  assert.equal(await other.changes().next(), undefined);
});

test("with an encoding, a mirror has text, and ends at bytes that are none", async (t) => {
  const server = await serverOf(t);
  const [client, raw] = [await clientOf(t, server, { encoding: "utf8" }), await clientOf(t, server)];
  const { version } = await raw.set("ä", "ö");
  const mirror = await mirrorOf(client, "*");
  assert.equal(mirror.pattern, "*");
  const entry = { value: "ö", version, expiresIn: "unknown" };
  assert.deepEqual([mirror.get("ä"), mirror.get(Buffer.from("ä")), mirror.snapshot()], [entry, entry, [["ä", entry]]]);
  const changes = mirror.changes();
  await raw.set("b", Buffer.from([0xff]));
  assert.equal(await changes.next(), undefined);
  await assert.rejects(mirror.synced(), TypeError);
  assert.equal(mirror.lostReason(), "refused");
});

test("a mirror of a store that watches no patterns", async (t) => {
  const plain = await clientOf(t, await proxyOf(t, await serverOf(t), withoutExtensions));
  await assert.rejects(plain.mirror("*", { refresh: null }), UnsupportedError);
  await plain.set("a", "1");
  const mirror = await mirrorOf(plain, "*", { refresh: 10 });
  const changes = mirror.changes();
  assert.deepEqual(contents(mirror), { a: "1" });
  await plain.set("b", "2");
  assert.equal(short(await changes.next()), "set b 2");
  await plain.del("a");
  assert.equal(short(await changes.next()), "deleted a");
  assert.deepEqual(contents(mirror), { b: "2" });
});
