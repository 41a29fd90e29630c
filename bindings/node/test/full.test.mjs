/** A client with as many calls under way as it takes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect } from "statestore";
import { clientOf, serverOf } from "./system.mjs";

test("a listener continues at the operation limit, and the client can be closed", async (t) => {
  const server = await serverOf(t);
  const [client, other] = [await connect(server.url), await clientOf(t, server)];
  const [few, many] = [await client.observe("silent"), await client.observe("silent")];
  const waiting = [];
  let isFull;
  const wait = (observer) => {
    for (let i = 0; i < 1000; i += 1) {
      waiting.push(observer.next().catch(({ code }) => { isFull ||= code === "QueueFull"; }));
    }
  };
  const fill = async () => {
    for (isFull = false; !isFull; ) {
      wait(many);
      // No result is taken meanwhile: whoever is told has no place for the next look.
      await null;
      await null;
    }
  };
  wait(few);
  const seen = [];
  const observed = ({ value }) => {
    seen.push(value.toString());
    return fill();
  };
  await client.observe("key", observed, { overflow: "all" });
  const told = async (value) => {
    while (seen.at(-1) !== value || !isFull) {
      await new Promise(setImmediate);
    }
  };
  await other.set("key", "one");
  await told("one");
  await other.set("key", "two");
  // Some of them end.
  few.close();
  await told("two");
  assert.deepEqual(seen, ["one", "two"]);
  await fill();
  await client.close();
  await Promise.all(waiting);
  assert.throws(() => client.scan("*"), { code: "Closed" });
});

test("a lock is released at the operation limit", async (t) => {
  const server = await serverOf(t);
  const [client, other] = [await clientOf(t, server), await clientOf(t, server)];
  const observer = await client.observe("silent");
  let isFull = false;
  const work = async () => {
    while (!isFull) {
      for (let i = 0; i < 1000; i += 1) {
        observer.next().catch(({ code }) => { isFull ||= code === "QueueFull"; });
      }
      await null;
      await null;
    }
    return "done";
  };
  assert.equal(await client.withLock("door", work), "done");
  assert.equal(await other.lease("door").holder(), null);
});

test("the signal of a guard acquired at the operation limit fires at its end", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const observer = await client.observe("silent");
  const locking = client.lock("door");
  // In one turn of the event loop, so that the guard comes after them.
  const calls = Array.from({ length: 2 ** 18 }, () => observer.next().catch(({ code }) => code));
  const guard = await locking;
  assert.equal(await calls.at(-1), "QueueFull");
  assert(guard.isValid());
  assert(!guard.signal.aborted, guard.signal.reason?.message);
  await guard.release();
  await new Promise((done) => guard.signal.aborted ? done() : guard.signal.addEventListener("abort", done));
  assert.match(guard.signal.reason.message, /given back/);
});
