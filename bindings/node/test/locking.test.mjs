/** Locks beyond the scenarios: signals, ends, leads. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { LockLostError } from "statestore";
import { clientOf, serverOf } from "./system.mjs";

test("the signal of a guard fires when the lock cannot be renewed, before anybody else can have it", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const guard = await client.lock("door", { duration: 300 });
  const { signal } = guard;
  assert.equal(signal, guard.signal);
  assert(!signal.aborted && guard.isValid());
  assert.equal(guard.reason(), null);
  process.kill(server.pid, "SIGSTOP");
  const lost = guard.lost();
  await once(signal, "abort");
  await lost;
  assert(!guard.isValid());
  assert(signal.reason instanceof LockLostError, signal.reason);
  assert.equal(signal.reason.cause.code, "TimedOut");
  assert.equal(guard.reason().code, "TimedOut");
  await assert.rejects(guard.set("account", "1"), { code: "LockLost", outcome: "not_done" });
});

test("the signal fires when the lock is given back, left, or its client is closed", async (t) => {
  const server = await serverOf(t);
  const [a, b] = [await clientOf(t, server), await clientOf(t, server)];
  const ends = { null: [(guard) => guard.release(), (guard) => guard.leave()], Closed: [() => a.close()] };
  for (const [cause, calls] of Object.entries(ends)) {
    for (const end of calls) {
      const guard = await a.lock(`door/${end}`);
      const fired = once(guard.signal, "abort");
      await end(guard);
      await fired;
      assert(guard.signal.reason instanceof LockLostError, guard.signal.reason);
      assert.equal(String(guard.signal.reason.cause?.code ?? null), cause);
    }
  }
  assert.equal(b.state().is, "connected");
});

test("a signal can end the work that the lock is for", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const guard = await client.lock("door");
  await client.lock("other-door");
  const rejected = assert.rejects(client.lock("other-door", { signal: guard.signal }), (error) => {
    return error.code === "Cancelled" && error.cause instanceof LockLostError;
  });
  await guard.release();
  await rejected;
});

test("a guard names its lock, its holder and its token", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const guard = await client.lock("door", { holder: "ann", renewal: "manual" });
  assert.equal(guard.name.toString(), "door");
  assert.deepEqual(guard.holder, { name: Buffer.from("ann"), clientId: null });
  const entry = await client.get("door");
  assert(entry.version.equals(guard.token));
  const renewed = await guard.renew();
  assert(renewed.compare(guard.token) > 0);
  assert((await guard.set("account", "1")).version.compare(guard.token) > 0);
  assert.equal(await guard.release(), "released");
  assert.equal(await guard.release(), "not_held");
});

test("the lead of an election passes on", async (t) => {
  const server = await serverOf(t);
  const [a, b] = [await clientOf(t, server), await clientOf(t, server)];
  const first = await a.election("chief").campaign("a");
  assert.equal(first.guard.isValid(), true);
  const second = b.election("chief").campaign("b");
  await first.proclaim("still a");
  assert.equal((await b.election("chief").leader()).value.toString(), "still a");
  assert.equal(await first.resign(), "released");
  const leadership = await second;
  assert.equal((await a.election("chief").leader()).value.toString(), "b");
  assert.equal((await a.election("chief").leader()).holder.clientId, b.clientId());
  await leadership.resign();
});

test("a guard that nobody looks at any more goes on holding its lock", async (t) => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc");
  const client = await clientOf(t, await serverOf(t));
  await client.lock("door");
  for (let i = 0; i < 10; i += 1) {
    gc();
    await new Promise(setImmediate);
    assert.notEqual(await client.lease("door").holder(), null);
  }
});
