/** Locks beyond the scenarios: signals, ends, leads. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { LockLostError, logTo } from "statestore";
import { clientOf, serverOf } from "./system.mjs";

test("the signal of a guard fires when the lock cannot be renewed, before another client can acquire it", async (t) => {
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
  assert.equal(await lost, "expired");
  assert(!guard.isValid());
  assert.equal(guard.lostReason(), "expired");
  assert(signal.reason instanceof LockLostError, signal.reason);
  assert.equal(signal.reason.message, "the lock is lost: expired");
  assert.equal(signal.reason.cause.code, "TimedOut");
  assert.equal(guard.reason().code, "TimedOut");
  await assert.rejects(guard.set("account", "1"), { code: "LockLost", outcome: "not_done" });
});

test("a lock is released although the release call is cancelled at once", async (t) => {
  const server = await serverOf(t);
  const [client, other] = [await clientOf(t, server), await clientOf(t, server)];
  const given = [];
  for (let i = 0; i < 20; i += 1) {
    const guard = await client.lock("door", { wait: 30_000 });
    const controller = new AbortController();
    const release = guard.release({ signal: controller.signal });
    controller.abort();
    const outcome = await release.then(String, (error) => error.outcome);
    assert(["released", "unknown"].includes(outcome), outcome);
    // The guard is kept meanwhile.
    given.push(guard);
    await (await other.lock("door", { wait: 30_000 })).release();
    assert(!guard.isValid());
  }
});

test("a release is bounded by its timeout and continues in the background", async (t) => {
  const server = await serverOf(t);
  const [client, other] = [await clientOf(t, server), await clientOf(t, server)];
  const [guard, lead] = [await client.lock("door"), await client.election("chief").campaign("me")];
  process.kill(server.pid, "SIGSTOP");
  await assert.rejects(guard.release({ timeout: 100 }), { code: "TimedOut", outcome: "unknown" });
  await assert.rejects(lead.resign({ timeout: 100 }), { code: "TimedOut", outcome: "unknown" });
  assert(!guard.isValid() && !lead.guard.isValid());
  process.kill(server.pid, "SIGCONT");
  await (await other.lock("door", { wait: 30_000 })).release();
});

test("the signal fires when the lock is released, left, or its client is closed", async (t) => {
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

test("an end of a lock has the same word in every language", async (t) => {
  const server = await serverOf(t);
  const [a, b] = [await clientOf(t, server), await clientOf(t, server)];
  const ends = {
    released: [(guard) => guard.release(), (guard) => guard.leave()],
    expired: [(guard) => guard.lost()],
    taken: [(guard) => b.set(guard.name, "thief").then(() => assert.rejects(guard.renew(), LockLostError))],
    closed: [() => a.close()],
  };
  for (const [word, calls] of Object.entries(ends)) {
    for (const [index, end] of calls.entries()) {
      const guard = await a.lock(`door/${word}/${index}`, { duration: word === "expired" ? 200 : 10_000, renewal: "manual" });
      assert.equal(guard.lostReason(), null);
      const fired = once(guard.signal, "abort");
      await end(guard);
      await fired;
      assert.equal(guard.lostReason(), word);
      assert.equal(guard.signal.reason.message, word === "released" ? "the lock was given back" : `the lock is lost: ${word}`);
      if (word !== "closed") {
        assert.equal(await guard.lost(), word);
      }
    }
  }
});

/** The ways to do work under a lock. */
const ways = {
  withLock: (client, work, options) => client.withLock("door", work, options),
  // What `await using` becomes.
  "await using": async (client, work, options) => {
    const guard = await client.lock("door", options);
    const result = await work(guard);
    await guard[Symbol.asyncDispose]();
    return result;
  },
  "await using of a lead": async (client, work, options) => {
    const leadership = await client.election("door", options).campaign("ann");
    const result = await work(leadership.guard);
    await leadership[Symbol.asyncDispose]();
    return result;
  },
};

for (const [way, run] of Object.entries(ways)) {
  test(`${way}: the lock is given back when the work has ended`, async (t) => {
    const client = await clientOf(t, await serverOf(t));
    assert.equal(await run(client, async (guard) => guard.isValid() && (await client.lease("door").holder()) !== null), true);
    assert.equal(await client.lease("door").holder(), null);
  });

  test(`${way}: a lost lock is an error although the work succeeded`, async (t) => {
    const server = await serverOf(t);
    const [client, thief] = [await clientOf(t, server), await clientOf(t, server)];
    const lost = { name: "LockLostError", outcome: "unknown" };
    const manual = { renewal: "manual", duration: 200 };
    await assert.rejects(run(client, (guard) => guard.lost(), manual), lost);
    await assert.rejects(run(client, () => thief.del("door"), { renewal: "manual" }), { ...lost, message: /found gone/ });
    const givenBackTooLate = async (guard) => {
      await guard.lost();
      await guard.release();
    };
    await assert.rejects(run(client, givenBackTooLate, manual), lost);
    await assert.rejects(run(client, () => client.close()), { ...lost, message: /closed/ });
  });

  test(`${way}: a lock that was given back inside is no lost one`, async (t) => {
    const client = await clientOf(t, await serverOf(t));
    assert.equal(await run(client, (guard) => guard.release()), "released");
  });

  test(`${way}: a failed release is no error`, async (t) => {
    const server = await serverOf(t);
    const client = await clientOf(t, server);
    const work = async () => {
      await server.kill();
      return "done";
    };
    assert.equal(await run(client, work, { duration: 1_000, renewal: "manual" }), "done");
  });
}

test("withLock: the error of the work wins, and the loss is in the log", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const logged = [];
  logTo("WARN", ({ message }) => logged.push(message));
  t.after(() => logTo(null));
  const failing = async (guard) => {
    await guard.lost();
    throw new Error("the work failed");
  };
  const options = { duration: 200, renewal: "manual" };
  await assert.rejects(client.withLock("door", failing, options), { message: "the work failed" });
  while (!logged.some((message) => message.includes("its lock was lost"))) {
    await new Promise(setImmediate);
  }
  // Nor does it matter that the lock cannot be given back.
  const killing = async () => {
    await server.kill();
    throw new Error("the work failed");
  };
  await assert.rejects(client.withLock("other-door", killing, { duration: 300, renewal: "manual" }), { message: "the work failed" });
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
  const guard = await client.lock("door", { holder: "ann", resume: true, renewal: "manual" });
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

test("an unreferenced guard keeps its lock", async (t) => {
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

test("what ends together with the taking of a lock ends with its own result", { timeout: 60_000 }, async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const keys = Array.from({ length: 300 }, (_, index) => `key/${index}`);
  await client.setMany(keys.map((key) => [key, key]));
  for (let round = 0; round < 20; round += 1) {
    const reads = keys.slice(0, 150).map((key) => client.get(key));
    const locks = [0, 1, 2, 3].map((number) => client.lock(`door/${round}/${number}`));
    reads.push(...keys.slice(150).map((key) => client.get(key)));
    // Results gather meanwhile, so that those of the locks are fetched together with others.
    for (const end = performance.now() + 20; performance.now() < end; );
    assert.deepEqual((await Promise.all(reads)).map((entry) => String(entry.value)), keys);
    for (const guard of await Promise.all(locks)) {
      assert(guard.isValid() && !guard.signal.aborted);
      assert.equal(await guard.release(), "released");
    }
  }
});

test("a lock whose name is no text of the client's encoding is not taken", async (t) => {
  const server = await serverOf(t);
  const [client, other] = [await clientOf(t, server, { encoding: "utf8" }), await clientOf(t, server)];
  const name = Buffer.from([0xff]);
  await assert.rejects(client.lock(name), TypeError);
  await assert.rejects(client.withLock(name, () => {}), TypeError);
  assert.equal((await other.lease(name).acquire()).is, "acquired");
});
