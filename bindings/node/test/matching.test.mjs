/** Observers of all keys that match a pattern. */
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { test } from "node:test";
import { Hlc, UnsupportedError } from "statestore";
import { proxyOf, withoutExtensions } from "./proxy.mjs";
import { clientOf, serverOf } from "./system.mjs";

/** An event in a short form: its word, its key and its value. */
function short({ is, key, value }) {
  return [is, key, value].filter((part) => part !== undefined).join(" ");
}

/** The events up to the first of this kind. */
async function until(observer, last) {
  const events = [];
  while (events.at(-1) !== last) {
    events.push(short(await observer.next()));
  }
  return events;
}

test("an observer of a pattern gets the present state, its end, and then each change", async (t) => {
  const server = await serverOf(t);
  const [client, writer] = [await clientOf(t, server), await clientOf(t, server)];
  assert.equal((await client.capabilities()).observeMatching, true);
  await writer.setMany({ "line1/a": "1", "line1/b": "2", "line2/a": "3" });
  const observer = await client.observeMatching("line1/*");
  assert.equal(String(observer.pattern), "line1/*");
  const present = await until(observer, "complete");
  assert.deepEqual([present.slice(0, -1).sort(), present.at(-1)], [["set line1/a 1", "set line1/b 2"], "complete"]);
  await writer.set("line2/a", "4");
  const { version } = await writer.set("line1/c", "5");
  assert.deepEqual(await observer.next(), { is: "set", key: Buffer.from("line1/c"), value: Buffer.from("5"), version });
  await writer.del("line1/c");
  const deleted = await observer.next();
  assert.equal(short(deleted), "deleted line1/c");
  assert(Hlc.compare(deleted.version, version) > 0);
  observer.close();
  assert.equal(await observer.next(), undefined);
  assert.deepEqual([observer.lostReason(), observer.error()], ["closed", null]);
});

test("a slow reader gets the newest event of each key", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const [slow, fast] = [await client.observeMatching("*"), await client.observeMatching("*")];
  // No key exists.
  assert.deepEqual([await until(slow, "complete"), await until(fast, "complete")], [["complete"], ["complete"]]);
  for (let i = 1; i <= 10; i += 1) {
    for (const key of ["a", "b"]) {
      await client.set(key, String(i));
      assert.equal(short(await fast.next()), `set ${key} ${i}`);
    }
  }
  assert.deepEqual([short(await slow.next()), short(await slow.next())], ["set a 10", "set b 10"]);
  await assert.rejects(slow.next({ timeout: 1 }), { code: "TimedOut" });
});

test("the listener of a pattern is called with each event", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const heard = new EventEmitter();
  const complete = once(heard, "complete");
  const observer = await client.observeMatching("line1/*", (event) => void heard.emit(event.is, event), { maxKeys: 10 });
  await complete;
  for (const [is, change] of [["set", () => client.set("line1/a", "1")], ["deleted", () => client.del("line1/a")]]) {
    const told = once(heard, is);
    await change();
    const [{ key }] = await told;
    assert.equal(String(key), "line1/a");
  }
  await assert.rejects(observer.next(), { code: "InvalidArgument", message: /has a listener/ });
});

test("after a lost connection only the differences follow, with the deletions", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const client = await clientOf(t, proxy, { reconnectDelayMin: 1, reconnectDelayMax: 10 });
  const writer = await clientOf(t, server);
  await writer.setMany({ a: "1", b: "1", c: "1" });
  const observer = await client.observeMatching("*");
  await until(observer, "complete");
  proxy.cut();
  await writer.set("a", "2");
  await writer.del("b");
  await writer.set("d", "1");
  proxy.restore();
  const [first, ...differences] = await until(observer, "resynced");
  assert.deepEqual([first, differences.pop(), differences.sort()], ["resync", "resynced", ["deleted b", "set a 2", "set d 1"]]);
  await writer.set("c", "2");
  assert.equal(short(await observer.next()), "set c 2");
});

test("on a store without this extension, scans find new keys", async (t) => {
  const plain = await clientOf(t, await proxyOf(t, await serverOf(t), withoutExtensions));
  assert.equal((await plain.capabilities()).observeMatching, false);
  await assert.rejects(plain.observeMatching("*", { refresh: null }), UnsupportedError);
  await plain.set("a", "1");
  const observer = await plain.observeMatching("*", { refresh: 10 });
  assert.deepEqual(await until(observer, "complete"), ["set a 1", "complete"]);
  await plain.set("b", "2");
  assert.equal(short(await observer.next()), "set b 2");
  await plain.del("a");
  assert.equal(short(await observer.next()), "deleted a");
});

test("an observer of a pattern ends with an error if too many keys match", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  await client.setMany({ a: "1", b: "2" });
  const observer = await client.observeMatching("*", { maxKeys: 1 });
  const loop = async () => {
    for await (const _ of observer) {
      // One of the keys, or both, may be reported before.
    }
  };
  await assert.rejects(loop, { code: "TooLarge" });
  assert.deepEqual([observer.lostReason(), observer.error().code], ["refused", "TooLarge"]);
});

test("the signal of observeMatching and the end of the client end an observer of a pattern", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const controller = new AbortController();
  const [given, other] = [await client.observeMatching("*", { signal: controller.signal }), await client.observeMatching("*")];
  const reason = new Error("the request is over");
  const loop = async () => {
    for await (const { is } of given) {
      assert.equal(is, "complete");
      controller.abort(reason);
    }
  };
  await assert.rejects(loop, { code: "Cancelled", cause: reason });
  await until(other, "complete");
  await client.close();
  assert.equal(await other.next(), undefined);
  assert.deepEqual([other.lostReason(), other.error()], ["closed", null]);
});
