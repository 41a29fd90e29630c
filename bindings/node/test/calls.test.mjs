/** Calls: what goes in, what comes out, and how they end. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { CancelledError, ClosedError, connect, InvalidArgumentError, SupersededError, TimedOutError, UnreachableError } from "statestore";
import { clientOf, serverOf } from "./system.mjs";

test("strings are UTF-8, and any view of bytes is its bytes", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  await client.set("schlüssel", "größe");
  assert.equal((await client.get(Buffer.from("schlüssel"))).value.toString(), "größe");
  const memory = new Uint8Array([1, 2, 3, 4, 5]);
  await client.set(memory.subarray(1, 3), memory.subarray(3));
  const { value } = await client.get(new Uint8Array([2, 3]));
  assert(Buffer.isBuffer(value));
  assert.deepEqual([...value], [4, 5]);
  const [both, none] = await client.getMany(new Set(["schlüssel", "nothing"]));
  assert.equal(both.value.toString(), "größe");
  assert.equal(none, null);
});

test("entries of several keys are a list that says whether it is a snapshot", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const { version } = await client.set("a", "1");
  const found = { value: Buffer.from("1"), version, expiresIn: "unknown" };
  const entries = await client.getMany(["a", "none", "a"]);
  assert(Array.isArray(entries));
  assert.deepEqual(entries, [found, null, found]);
  assert.equal(entries.snapshot, true);
  assert.equal((await client.getMany([])).snapshot, true);
  assert.equal((await client.getMany(["a"], { eventual: true })).snapshot, false);
  assert.equal((await client.getMany(["a"], { remaining: true })).snapshot, false);
});

test("several writes are given as an object, a map or pairs, and each has its outcome", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const own = (values) => client.setMany(values).then((outcomes) => outcomes.map(({ applied }) => applied));
  assert.deepEqual(await own({ a: "1", b: Buffer.from("2") }), [true, true]);
  assert.deepEqual(await own(new Map([[Buffer.from("c"), "3"]])), [true]);
  assert.deepEqual(await own(new Set([["d", "4"]])), [true]);
  assert.deepEqual((await client.getMany(["a", "b", "c", "d"])).map(({ value }) => value.toString()), ["1", "2", "3", "4"]);
  assert.deepEqual((await client.delMany(["a", "none"])).map(({ is }) => is), ["deleted", "absent"]);

  await assert.rejects(client.setMany([["e", "5"], ["", "6"], ["f", "7"]]), (error) => {
    assert(error instanceof InvalidArgumentError);
    const [before, failed, after] = error.results;
    assert(before.applied && after.applied && failed instanceof InvalidArgumentError && failed !== error);
    assert.equal(failed.message, error.message);
    return true;
  });
  assert.equal((await client.get("f")).value.toString(), "7");
  await assert.rejects(client.delMany(["f", ""]), ({ results }) => results[0].is === "deleted" && results[1].code === "InvalidArgument");
  const refusals = [
    [client.setMany("ab"), "values must be an object, a map or an iterable of pairs, not string"],
    [client.setMany([["a"]]), "values[0] must be a pair of a key and a value, not an array"],
    [client.setMany([["a", "1"], ["b", 2]]), "values[1][1] must be a string, a Buffer or a Uint8Array, not number"],
    [client.setMany({}, { persists: true }), "setMany has no option persists; the nearest is persist"],
  ];
  for (const [refused, message] of refusals) {
    await assert.rejects(refused, { name: "TypeError", message });
  }
});

test("arguments may change after the call", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const key = Buffer.from("key");
  const value = Buffer.from("value");
  const set = client.set(key, value);
  key.fill(0);
  value.fill(0);
  await set;
  assert.equal((await client.get("key")).value.toString(), "value");
});

test("a large value comes back as it went", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const value = Buffer.alloc(8 << 20, "0123456789abcdef-");
  await client.set("large", value);
  assert((await client.get("large")).value.equals(value));
});

test("a call without a response ends at its timeout, or when its signal fires", async (t) => {
  const server = await serverOf(t);
  const [client, idle] = [await clientOf(t, server), await clientOf(t, server)];
  process.kill(server.pid, "SIGSTOP");
  await assert.rejects(client.get("key", { timeout: 50 }), (error) => {
    assert(error instanceof TimedOutError);
    assert.deepEqual([error.code, error.outcome, error.retryable], ["TimedOut", "unknown", true]);
    return true;
  });

  const controller = new AbortController();
  const calls = [
    client.get("key", { signal: controller.signal }),
    client.set("key", "v", { signal: controller.signal }),
    client.del("key", { signal: controller.signal }),
    client.vdel("key", "v", { signal: controller.signal }),
    client.getMany(["key"], { signal: controller.signal }),
    client.observe("key", { signal: controller.signal }),
    client.lock("lock", { signal: controller.signal }),
    client.update("key", () => "v", { signal: controller.signal }),
    client.scan("*", { signal: controller.signal }).next(),
    client.lease("lock").holder({ signal: controller.signal }),
    client.election("lock").campaign("v", { signal: controller.signal }),
  ];
  const reason = new Error("enough");
  controller.abort(reason);
  for (const result of await Promise.allSettled(calls)) {
    assert.equal(result.status, "rejected");
    assert(result.reason instanceof CancelledError, result.reason);
    assert.equal(result.reason.cause, reason);
  }
  const { sent } = idle.counters();
  await assert.rejects(idle.set("key", "v", { signal: controller.signal }), { code: "Cancelled", outcome: "not_done" });
  assert.equal(idle.counters().sent, sent, "a call whose signal has fired sends nothing");
});

test("a signal that fires after the end of its call does nothing, and holds nothing", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const controller = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = controller.signal;
  controller.signal.addEventListener = function (...args) {
    listeners += 1;
    return addEventListener.apply(this, args);
  };
  controller.signal.removeEventListener = function (...args) {
    listeners -= 1;
    return removeEventListener.apply(this, args);
  };
  await client.set("key", "value", { signal: controller.signal });
  const calls = Array.from({ length: 50 }, () => client.get("key", { signal: controller.signal }));
  assert.equal(listeners, 1, "one for all calls, so that Node does not warn of a leak");
  await Promise.all(calls);
  assert.equal(listeners, 0);
  controller.abort();
  assert.equal((await client.get("key")).value.toString(), "value");
});

test("update calls its function, which may take its time, until it wins", async (t) => {
  const server = await serverOf(t);
  const clients = await Promise.all([clientOf(t, server), clientOf(t, server), clientOf(t, server)]);
  const add = (client) =>
    client.update("count", async (old) => {
      await new Promise(setImmediate);
      return String(Number(old?.value ?? 0) + 1);
    });
  await Promise.all(clients.flatMap((client) => Array.from({ length: 5 }, () => add(client))));
  assert.equal((await clients[0].get("count")).value.toString(), "15");
});

test("an exception of the update function ends the update and leaves the key unchanged", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  await client.set("key", "value");
  const error = new Error("no");
  await assert.rejects(client.update("key", () => { throw error; }), error);
  await assert.rejects(client.update("key", () => Promise.reject(error)), error);
  // A plain set is still allowed: nothing of an update has touched the key.
  assert.equal((await client.set("key", "other")).applied, true);
});

test("an update can be cancelled while its function runs", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const controller = new AbortController();
  let answer;
  const update = client.update("key", () => {
    controller.abort();
    return new Promise((resolve) => (answer = resolve));
  }, { signal: controller.signal });
  await assert.rejects(update, CancelledError);
  answer("late");
  assert.equal(await client.get("key"), null);
});

test("withLock releases the lock when its work succeeds or fails", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  assert.equal(await client.withLock("door", async (guard) => (guard.isValid() ? 7 : 0)), 7);
  const error = new Error("no");
  await assert.rejects(client.withLock("door", () => { throw error; }), error);
  assert.equal(await client.lease("door").holder(), null);
});

test("closing ends operations under way, and rejects later ones", async (t) => {
  const server = await serverOf(t);
  const client = await connect(server.url);
  const observer = await client.observe("key");
  const next = observer.next();
  process.kill(server.pid, "SIGSTOP");
  const calls = Promise.allSettled([client.get("key"), client.set("key", "v"), client.lock("door"), client.update("key", () => "x")]);
  const closed = once(client, "state");
  const closing = client.close({ timeout: 0 });
  assert.equal(client.close(), closing);
  await closing;
  for (const { reason } of await calls) {
    assert(reason instanceof ClosedError, reason);
  }
  assert.equal(await next, undefined);
  assert.deepEqual((await closed).map(({ is, reason }) => [is, reason.code]), [["closed", "Closed"]]);
  assert.equal(client.state().is, "closed");
  await assert.rejects(client.get("key"), { code: "Closed", outcome: "not_done" });
  assert.throws(() => client.scan("*"), ClosedError);
  assert.throws(() => client.lease("l"), ClosedError);
  assert.throws(() => client.election("l"), ClosedError);
  // What it was can still be asked for.
  assert.equal(typeof client.clientId(), "string");
  assert.equal(client.counters().reconnects, 0);
  client.ref().unref();
  await client.close();
});

test("a connection that cannot be made rejects, and leaves nothing that runs", async () => {
  await assert.rejects(connect("mqtt://127.0.0.1:1"), (error) => {
    assert(error instanceof UnreachableError);
    assert.equal(error.retryable, true);
    return true;
  });
  await assert.rejects(connect("mqtt://127.0.0.1:1", { signal: AbortSignal.abort(new Error("enough")) }), { code: "Cancelled" });
});

test("states are delivered, the connection recovers, and observers report missed changes", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { reconnectDelayMin: 1, reconnectDelayMax: 20 });
  const states = [];
  const reconnected = new Promise((resolve) => {
    client.on("state", (state) => {
      states.push(state.is);
      if (state.is === "connected") {
        resolve();
      }
    });
  });
  assert.deepEqual(client.state(), { is: "connected" });
  const observer = await client.observe("key", { overflow: "all" });
  const lost = once(client, "state");
  await server.kill();
  const [state] = await lost;
  assert.equal(state.is, "reconnecting");
  assert.equal(state.reason.retryable, true);
  await serverOf(t, { port: server.port });
  await reconnected;
  assert.deepEqual([...new Set(states)], ["reconnecting", "connected"]);
  assert.deepEqual(await observer.next(), { is: "resync" });
  assert.equal(client.counters().reconnects, 1);
});

test("with an endless limit the first connection waits for its server", async (t) => {
  // The first attempt meets somebody who hangs up; only then a server takes the port over.
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  const connecting = clientOf(t, { url: `mqtt://127.0.0.1:${port}` }, { connectLimit: Infinity, reconnectLimit: Infinity });
  const [socket] = await once(listener, "connection");
  socket.destroy();
  listener.close();
  await once(listener, "close");
  await serverOf(t, { port });
  const client = await connecting;
  assert.equal((await client.set("key", "value")).applied, true);
  for (const limit of [-1, NaN, -Infinity]) {
    await assert.rejects(connect("mqtt://127.0.0.1:1", { connectLimit: limit }), { code: "InvalidArgument", message: /^connectLimit must be/ });
  }
});

test("during an outage, only the newest value of a key waits", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { reconnectDelayMin: 1, reconnectDelayMax: 20 });
  const lost = once(client, "state");
  await server.kill();
  await lost;
  const newest = { coalesce: true, timeout: 60_000 };
  const first = client.set("key", "1", newest);
  const second = client.set("key", "2", newest);
  await assert.rejects(first, (error) => error instanceof SupersededError && error.outcome === "not_done" && !error.retryable);
  assert.equal(client.counters().superseded, 1);
  await serverOf(t, { port: server.port });
  assert.equal((await second).applied, true);
  assert.equal((await client.get("key")).value.toString(), "2");
});

test("a client that gives up reconnecting reports it, and still has to be closed", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { reconnectDelayMin: 1, reconnectDelayMax: 10, reconnectLimit: 50 });
  const closed = new Promise((resolve) => client.on("state", (state) => state.is === "closed" && resolve(state.reason)));
  await server.kill();
  assert.equal((await closed).code, "Unreachable");
  await assert.rejects(client.get("key"), ClosedError);
  assert.equal(client.state().is, "closed");
});

test("a call that is aborted while its arguments are read is cancelled", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  process.kill(server.pid, "SIGSTOP");
  const controller = new AbortController();
  function* keys() {
    controller.abort(new Error("enough"));
    yield "key";
  }
  await assert.rejects(client.getMany(keys(), { signal: controller.signal }), ({ code, cause }) => code === "Cancelled" && cause.message === "enough");
  process.kill(server.pid, "SIGCONT");
});

test("closing finishes the calls that were not awaited", async (t) => {
  const server = await serverOf(t);
  const client = await connect(server.url);
  const observer = await client.observe("key");
  // What waits for an event is not waited for.
  const next = observer.next();
  const keys = Array.from({ length: 100 }, (_, number) => `key-${number}`);
  const sets = keys.map((key) => client.set(key, "v"));
  const update = client.update("count", async (old) => String(Number(old?.value ?? 0) + 1));
  const closing = client.close({ timeout: 60_000 });
  await assert.rejects(client.get("late"), { code: "Closed", outcome: "not_done" });
  await closing;
  assert((await Promise.all(sets)).every(({ applied }) => applied));
  assert.equal((await update).is, "applied");
  assert.equal(await next, undefined);
  const other = await clientOf(t, server);
  assert((await other.getMany([...keys, "count"])).every((entry) => entry !== null));
});

test("closing is bounded, and the outcome of what is not finished is unknown", async (t) => {
  const server = await serverOf(t);
  const client = await connect(server.url);
  process.kill(server.pid, "SIGSTOP");
  const set = client.set("key", "v");
  set.catch(() => {});
  while (client.counters().inFlight === 0) await new Promise(setImmediate);
  await client.close({ timeout: 50 });
  await assert.rejects(set, { code: "Closed", outcome: "unknown" });
});

test("a call fails at once while the connection is lost if that is set", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { failFast: true, requestTimeout: 3_600_000 });
  const lost = once(client, "state");
  await server.kill();
  await lost;
  const calls = [
    () => client.get("key"),
    () => client.set("key", "v"),
    () => client.del("key"),
    () => client.vdel("key", "v"),
    () => client.getMany(["key"]),
    () => client.update("key", () => "v"),
    () => client.lock("lock"),
    () => client.lease("lock").acquire(),
    () => client.observe("key"),
  ];
  for (const call of calls) {
    await assert.rejects(call(), (error) => {
      assert(error instanceof UnreachableError, error);
      assert.match(error.message, /fail_fast is set and the connection was lost [0-9.]+ s ago: /);
      assert.deepEqual([error.outcome, error.retryable], ["not_done", true]);
      assert(error.cause instanceof Error);
      return true;
    });
  }
});

test("a time-out reports the lost connection", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const lost = once(client, "state");
  await server.kill();
  await lost;
  await assert.rejects(client.set("key", "v", { timeout: 50 }), (error) => {
    assert.match(error.message, /; the connection was lost [0-9.]+ s ago: .*127\.0\.0\.1/);
    return error instanceof TimedOutError && error.outcome === "not_done";
  });
});
