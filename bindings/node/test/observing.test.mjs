/** Observers: iteration, callbacks, back-pressure, ends. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { clientOf, serverOf } from "./system.mjs";

test("a slow consumer of all observations learns how many it missed, and memory stays bounded", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const slow = await client.observe("key", { overflow: { all: 100 } });
  const fast = await client.observe("key", { overflow: "all" });
  let told = 0;
  for (let i = 1; i <= 1000; i += 1) {
    await client.set("key", String(i));
    assert.equal((await fast.next()).value.toString(), String(i));
  }
  for await (const observation of slow) {
    if (told === 0) {
      assert.deepEqual(observation, { is: "lagged", count: 900 });
    } else {
      assert.equal(observation.value.toString(), String(900 + told));
    }
    told += 1;
    if (told === 101) {
      break;
    }
  }
});

test("a slow consumer of the latest sees the latest each time it looks", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const [slow, fast] = [await client.observe("key"), await client.observe("key", { overflow: "all" })];
  const seen = [];
  let written = 0;
  const write = async (count) => {
    for (let i = 0; i < count; i += 1) {
      written += 1;
      await client.set("key", String(written));
      // Both have been told of it then.
      await fast.next();
    }
  };
  await write(10);
  for await (const { value } of slow) {
    seen.push(Number(value));
    if (seen.length === 4) {
      break;
    }
    // Nothing was taken in advance while this one is at work.
    await write(10);
  }
  assert.deepEqual(seen, [10, 20, 30, 40]);
});

test("the present state is the first observation if the caller asks for it", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const { version } = await client.set("key", "one");
  const [present, absent] = [await client.observe("key", { initial: true, overflow: "all" }), await client.observe("none", { initial: true })];
  assert.deepEqual(await present.next(), { is: "set", value: Buffer.from("one"), version });
  assert.deepEqual(await absent.next(), { is: "deleted", version: null });
  await client.set("key", "two");
  assert.equal(String((await present.next()).value), "two");
});

test("leaving the loop ends the watch at the store", async (t) => {
  const server = await serverOf(t);
  const [client, writer] = [await clientOf(t, server), await clientOf(t, server)];
  const observer = await client.observe("key");
  await writer.set("key", "one");
  for await (const observation of observer) {
    assert.equal(observation.is, "set");
    break;
  }
  assert.equal(await observer.next(), undefined);
  assert.equal(observer.error(), null);
  // It ends in the background; from some write on, nobody is told any more.
  let before;
  do {
    before = client.counters().notifications;
    await writer.set("key", "other");
    await client.get("key");
  } while (client.counters().notifications > before);
});

test("a callback is called with one observation at a time", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const seen = [];
  let running = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const listener = async ({ value }) => {
    running += 1;
    assert.equal(running, 1);
    seen.push(Number(value));
    await new Promise(setImmediate);
    running -= 1;
    if (Number(value) === 5) {
      finish();
    }
  };
  const observer = await client.observe("key", listener, { overflow: "all" });
  for (let i = 1; i <= 5; i += 1) {
    await client.set("key", String(i));
  }
  await finished;
  assert.deepEqual(seen, [1, 2, 3, 4, 5]);
  observer.close();
});

test("several calls can wait for one observer, and each observation goes to one", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const observer = await client.observe("key", { overflow: "all" });
  const next = [observer.next(), observer.next(), observer.next()];
  for (const value of ["1", "2", "3"]) {
    await client.set("key", value);
  }
  assert.deepEqual((await Promise.all(next)).map(({ value }) => String(value)).sort(), ["1", "2", "3"]);
});

test("a cancelled wait for an observation loses none", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const observer = await client.observe("key", { overflow: "all" });
  await assert.rejects(observer.next({ signal: AbortSignal.timeout(1) }), { code: "Cancelled" });
  await client.set("key", "value");
  assert.equal((await observer.next()).value.toString(), "value");
  observer.close();
  assert.equal(await observer.next(), undefined);
});

test("an observer reports why it ended, and for await throws unless it was closed", async (t) => {
  const server = await serverOf(t);
  const first = await clientOf(t, server, { clientId: "twin" });
  const ended = [await first.observe("key"), await first.lease("door").observe(), await first.election("chief").observe()];
  assert(ended.every((follower) => follower.lostReason() === null && follower.error() === null));
  const listening = once(process, "warning");
  await first.observe("other-key", () => {});
  const closed = once(first, "state");
  await clientOf(t, server, { clientId: "twin" });
  for (const follower of ended) {
    await assert.rejects(
      async () => {
        for await (const _ of follower) {
          // Who holds it is told first.
        }
      },
      { code: "Closed", message: /took the session over/ },
    );
    assert.equal(follower.lostReason(), "taken_over");
    assert.equal(follower.error().code, "Closed");
  }
  const [state] = await closed;
  assert.deepEqual([state.is, state.lostReason], ["closed", "taken_over"]);
  assert.equal(first.state().lostReason, "taken_over");
  // Nobody waits for the end of what a listener is told.
  const [warning] = await listening;
  assert.match(warning.message, /took the session over/);
});

test("an observer of a client that gave up, and of one that was closed", async (t) => {
  const server = await serverOf(t);
  const hasty = await clientOf(t, server, { reconnectLimit: 100 });
  const patient = await clientOf(t, server);
  const [one, other, left] = [await hasty.observe("key"), await patient.observe("key"), await patient.observe("key")];
  const guard = await hasty.lock("door");
  await server.kill();
  assert.equal(await one.next(), undefined);
  assert.equal(one.lostReason(), "gave_up");
  assert.equal(await guard.lost(), "gave_up");
  assert.equal(hasty.state().lostReason, "gave_up");
  left.close();
  await patient.close();
  for (const follower of [other, left]) {
    for await (const _ of follower) {
      assert.fail("nothing was observed");
    }
    assert.deepEqual([follower.lostReason(), follower.error()], ["closed", null]);
  }
  assert.equal(patient.state().lostReason, "closed");
});

test("the holders of a lease and the leaders of an election can be followed", async (t) => {
  const server = await serverOf(t);
  const [a, b] = [await clientOf(t, server), await clientOf(t, server)];
  const holders = await b.lease("door").observe();
  assert.equal(await holders.next(), null);
  const { guard } = await a.lease("door", { holder: "ann", resume: true }).acquire();
  assert.equal((await holders.next()).holder.name.toString(), "ann");
  await guard.release();
  assert.equal(await holders.next(), null);
  holders.close();
  assert.equal(await holders.next(), undefined);

  const leaders = await b.election("chief").observe();
  assert.equal(await leaders.next(), null);
  const leadership = await a.election("chief").campaign("10.0.0.1");
  let leader = await leaders.next();
  while (leader.value === null) {
    leader = await leaders.next();
  }
  assert.equal(leader.value.toString(), "10.0.0.1");
  assert.equal(leader.holder.clientId, a.clientId());
  assert.equal(await leadership.resign(), "released");
});

test("the signal of observe ends the observer", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const warnings = [];
  const warn = (warning) => warnings.push(warning);
  process.on("warning", warn);
  t.after(() => process.off("warning", warn));
  const controller = new AbortController();
  const { signal } = controller;
  const observers = await Promise.all(Array.from({ length: 20 }, () => client.observe("key", { signal })));
  const heard = [];
  await client.observe("key", (observation) => heard.push(observation.is), { signal });
  const loops = observers.map(async (observer) => {
    for await (const _ of observer) {
      // Each change is seen.
    }
  });
  await client.set("key", "one");
  const reason = new Error("the request is over");
  controller.abort(reason);
  for (const loop of loops) {
    await assert.rejects(loop, { code: "Cancelled", cause: reason });
  }
  for (const observer of observers) {
    assert.deepEqual([observer.lostReason(), observer.error().code], ["closed", "Cancelled"]);
    assert.equal(await observer.next(), undefined);
  }
  await client.set("key", "two");
  assert.deepEqual(warnings, []);
  assert(heard.length <= 1, heard);
  await assert.rejects(client.observe("key", { signal }), { code: "Cancelled", outcome: "not_done" });
});

test("an observer with a listener cannot be iterated", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const observer = await client.observe("key", () => {});
  const refused = { code: "InvalidArgument", message: /has a listener/ };
  await assert.rejects(observer.next(), refused);
  await assert.rejects(observer[Symbol.asyncIterator]().next(), refused);
});
