/** Functions of the caller run in the asynchronous context of the call that they were given to. */
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { once } from "node:events";
import { test } from "node:test";
import { connect, logTo } from "statestore";
import { serverOf } from "./system.mjs";

const storage = new AsyncLocalStorage();

/** A client that was connected in the context `connect`. */
async function connected(t) {
  const server = await serverOf(t);
  const client = await storage.run("connect", () => connect(server.url));
  t.after(() => client.close());
  return client;
}

test("the function of update runs in the context of its call", async (t) => {
  const client = await connected(t);
  const seen = (name) => storage.run(name, async () => {
    const inside = [];
    await client.update("key", async () => {
      inside.push(storage.getStore());
      await null;
      inside.push(storage.getStore());
      return name;
    });
    return [...inside, storage.getStore()];
  });
  for (const name of ["first", "second"]) {
    assert.deepEqual(await seen(name), [name, name, name]);
  }
});

test("the signal of a guard fires in the context of the call that took the lock", async (t) => {
  const client = await connected(t);
  const takes = {
    lock: () => client.lock("door"),
    acquire: async () => (await client.lease("gate").acquire()).guard,
    campaign: async () => (await client.election("chief").campaign("me")).guard,
    withLock: () => new Promise((resolve) => void client.withLock("window", async (guard) => {
      resolve(guard);
      await guard.lost();
    })),
  };
  for (const [name, take] of Object.entries(takes)) {
    const guard = await storage.run(name, take);
    const fired = new Promise((resolve) => guard.signal.addEventListener("abort", () => resolve(storage.getStore())));
    await guard.release();
    assert.equal(await fired, name);
  }
});

test("listeners of observers and of the log run in the context of the call that named them", async (t) => {
  const client = await connected(t);
  let hear;
  const heard = new Promise((resolve) => (hear = resolve));
  await storage.run("observe", () => client.observe("key", () => hear(storage.getStore())));
  const logged = new Promise((resolve) => storage.run("logTo", () => logTo("TRACE", () => resolve(storage.getStore()))));
  await client.set("key", "value");
  assert.equal(await heard, "observe");
  // A connection is logged.
  await connected(t);
  assert.equal(await logged, "logTo");
  logTo(null);
  const observer = await storage.run("iterate", () => client.observe("other"));
  const next = storage.run("next", () => observer.next().then(() => storage.getStore()));
  await client.set("other", "value");
  assert.equal(await next, "next");
});

test("a shared signal cancels each call in its own context", async (t) => {
  const client = await connected(t);
  const controller = new AbortController();
  const observer = await client.observe("key");
  const waits = ["one", "two"].map((name) =>
    storage.run(name, () => observer.next({ signal: controller.signal }).catch((error) => [error.code, storage.getStore()])),
  );
  const aborted = once(controller.signal, "abort");
  controller.abort();
  await aborted;
  assert.deepEqual(await Promise.all(waits), [["Cancelled", "one"], ["Cancelled", "two"]]);
});
