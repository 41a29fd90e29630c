/** The nodes that follow the store: watches, locks and elections. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { proxyOf } from "./proxy.mjs";
import { NodeRed, answer, clientOf, configOf, emit, entry, serverOf } from "./system.mjs";

const watch = (key, more) => ({
  id: "watch", type: "statestore-watch", server: "server", mode: "key", key, initial: true, overflow: "all", format: "text", wires: [["seen"]], ...more,
});
const lock = (more) => ({
  id: "lock", type: "statestore-lock", server: "server", lock: "pump", lockType: "str", action: "message", duration: "10", wait: "", wires: [["answer"], ["lost"]], ...more,
});
const election = (more) => ({ id: "election", type: "statestore-election", server: "server", election: "line", value: "", duration: "10", wires: [["seen"]], ...more });
const brief = ({ event, topic, payload }) => [event, topic, payload];

test("a watch of a key sends the present state, then each change", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  await client.set("speed", "1");
  const red = await NodeRed.start(t);
  await red.deploy([configOf(server), watch("speed"), emit("seen")]);
  assert.deepEqual(brief(await red.messages.next()), ["set", "speed", "1"]);
  assert.deepEqual(brief(await red.messages.next()), ["complete", "speed", null]);
  const { version } = await client.set("speed", "2");
  const changed = await red.messages.next();
  assert.deepEqual([...brief(changed), changed.version], ["set", "speed", "2", version.text]);
  await client.del("speed");
  assert.deepEqual(brief(await red.messages.next()), ["deleted", "speed", null]);
});

test("a watch without the present state sends changes only", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  await client.set("speed", "1");
  const red = await NodeRed.start(t);
  await red.deploy([configOf(server), watch("speed", { initial: false }), watch("*", { id: "all", mode: "pattern", initial: false, name: "all", wires: [["others"]] }), emit("seen"), emit("others")]);
  await red.statuses.next(({ node, text }) => node === "all" && text === "connected");
  // The first event may be of the second write, if the watch has begun only then.
  let seen;
  for (let value = 2; seen === undefined; value += 1) {
    await client.set("speed", String(value));
    seen = await Promise.race([red.messages.next(({ to }) => to === "seen"), client.get("speed").then(() => undefined)]);
  }
  assert.equal(seen.event, "set");
  assert.notEqual(seen.payload, "1");
});

test("a watch of a pattern reports the differences after an outage", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const proxy = await proxyOf(t, server);
  await client.set("line/1", "a");
  const red = await NodeRed.start(t);
  await red.deploy([configOf(proxy), watch("line/*", { mode: "pattern" }), emit("seen")]);
  assert.deepEqual(brief(await red.messages.next()), ["set", "line/1", "a"]);
  assert.deepEqual(brief(await red.messages.next()), ["complete", "line/*", null]);
  await red.statuses.next(({ text }) => text === "connected");

  proxy.cut();
  await red.statuses.next(({ text }) => text.startsWith("disconnected: "));
  await client.set("line/2", "b");
  await client.del("line/1");
  proxy.restore();
  await red.statuses.next(({ text }) => text === "connected");
  await client.set("line/3", "c");
  assert.equal((await red.messages.next()).event, "resync");
  const seen = new Set();
  while (seen.size < 4) {
    const { event, topic } = await red.messages.next();
    seen.add(`${event} ${topic}`);
  }
  assert.deepEqual([...seen].sort(), ["deleted line/1", "resynced line/*", "set line/2", "set line/3"]);
});

test("a lock is acquired, protects writes by its token, and is released", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const red = await NodeRed.start(t);
  await red.deploy([
    configOf(server), ...answer(), ...entry("lock", "lock"), lock(), emit("lost"),
    ...entry("once", "once"), lock({ id: "once", action: "acquire", wait: "0" }), ...entry("release", "release"), lock({ id: "release", action: "release" }),
  ]);
  assert.equal((await red.send("release")).event, "not_held");
  const acquired = await red.send("lock", { action: "acquire", payload: "work" });
  assert.deepEqual([acquired.event, acquired.lock, acquired.payload], ["acquired", "pump", "work"]);
  await red.statuses.next(({ node, text }) => node === "lock" && text === "held: pump");
  await assert.rejects(client.lock("pump", { wait: 0 }), { code: "LockHeld" });
  assert.equal((await red.send("once")).error.code, "LockHeld");
  assert.match((await red.send("lock", { action: "keep" })).error.message, /msg.action/);

  // Another node of the same server releases it.
  const released = await red.send("release", { fencingToken: acquired.fencingToken });
  assert.deepEqual([released.event, released.fencingToken], ["released", undefined]);
  await red.statuses.next(({ node, text }) => node === "lock" && text === "connected");
  const guard = await client.lock("pump", { wait: 0 });
  assert.ok(guard.token.text > acquired.fencingToken);
});

test("the second output reports a lock that was lost in an outage", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const red = await NodeRed.start(t);
  await red.deploy([configOf(proxy), ...answer(), ...entry("lock", "lock"), lock({ duration: "1" }), emit("lost")]);
  const { fencingToken } = await red.send("lock", { action: "acquire", payload: "work" });
  proxy.cut();
  const lost = await red.messages.next();
  assert.deepEqual([lost.to, lost.event, lost.reason, lost.payload, lost.fencingToken], ["lost", "lost", "expired", "work", fencingToken]);
});

test("a deployment releases the locks and resigns from elections", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const red = await NodeRed.start(t);
  await red.deploy([configOf(server), ...answer(), ...entry("lock", "lock"), lock({ duration: "600" }), emit("lost"), election({ value: "red", duration: "600" }), emit("seen")]);
  assert.equal((await red.send("lock", { action: "acquire" })).event, "acquired");
  assert.equal((await red.messages.next()).payload, false);
  const won = await red.messages.next();
  assert.deepEqual([won.event, won.topic, won.payload], ["leader", "line", true]);
  assert.match(won.fencingToken, /^\d+:/);
  assert.equal((await client.election("line").leader()).value, "red");
  await red.deploy([]);
  await client.lock("pump", { wait: 5_000 });
  await client.election("line", { wait: 5_000 }).campaign("test");
});

test("a node that does not lead follows when the leader resigns", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const leadership = await client.election("line").campaign("test");
  const red = await NodeRed.start(t);
  await red.deploy([configOf(server), election(), emit("seen")]);
  assert.deepEqual(brief(await red.messages.next()), ["not_leader", "line", false]);
  await red.statuses.next(({ text }) => text === "not leader");
  await leadership.resign();
  assert.deepEqual(brief(await red.messages.next()), ["leader", "line", true]);
});

test("a leader that is cut off reports the loss, and leads again after the outage", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const red = await NodeRed.start(t);
  await red.deploy([configOf(proxy), election({ duration: "1" }), emit("seen")]);
  await red.messages.next(({ payload }) => payload);
  proxy.cut();
  const lost = await red.messages.next();
  assert.deepEqual([lost.payload, lost.reason], [false, "expired"]);
  proxy.restore();
  assert.equal((await red.messages.next()).event, "leader");
});
