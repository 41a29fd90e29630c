/** Calls while the timers of the platform are replaced by fakes. */
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import FakeTimers from "@sinonjs/fake-timers";
import { connect } from "statestore";
import { run } from "./child.mjs";
import { clientOf, serverOf } from "./system.mjs";

/** Every kind of call, none of which may wait for a fake timer. */
async function useEverything(server) {
  const client = await connect(server.url);
  await client.set("key", "old");
  const heard = new Promise((resolve) => void client.observe("key", resolve));
  const observer = await client.observe("key");
  assert.equal((await client.update("counter", () => "new")).is, "applied");
  await client.set("key", "newer");
  assert.equal((await observer.next()).is, "set");
  await heard;
  for await (const key of client.scan("key*")) {
    assert.equal(String(key), "key");
  }
  for await (const [key] of client.scanEntries("key*")) {
    assert.equal(String(key), "key");
  }
  assert.equal((await (await client.observeMatching("key*")).next()).is, "set");
  const mirror = await client.mirror("key*");
  await mirror.synced({ timeout: 60_000 });
  assert.equal(mirror.size, 1);
  const guard = await client.lock("door");
  await guard.release();
  assert(guard.signal.aborted);
  await client.close();
}

test("no call waits for the mocked timers of node:test", async (t) => {
  const [before, server] = [await clientOf(t, await serverOf(t)), await serverOf(t)];
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "setImmediate", "Date"] });
  try {
    await useEverything(server);
    await before.set("key", "value");
    await before.close();
  } finally {
    mock.timers.reset();
  }
});

test("no call waits for the fake timers that Jest, Vitest and Sinon install", async (t) => {
  const [before, server] = [await clientOf(t, await serverOf(t)), await serverOf(t)];
  const toFake = ["setTimeout", "setInterval", "setImmediate", "nextTick", "queueMicrotask", "Date", "hrtime", "performance"];
  const clock = FakeTimers.install({ toFake });
  try {
    await useEverything(server);
    await before.set("key", "value");
    await before.close();
  } finally {
    clock.uninstall();
  }
});

test("a listener that throws and a log are not held up by fake timers", async (t) => {
  const { exit, printed } = await run(t, await serverOf(t), `
    import FakeTimers from "@sinonjs/fake-timers";
    import { logTo } from "statestore";
    FakeTimers.install({ toFake: ["setTimeout", "setImmediate", "queueMicrotask"] });
    const logged = new Promise((resolve) => logTo("DEBUG", resolve));
    const uncaught = new Promise((resolve) => process.on("uncaughtException", resolve));
    const client = await connect(url);
    await client.observe("key", () => { throw new Error("thrown by the listener"); });
    await client.set("key", "value");
    console.log((await uncaught).message, (await logged).level !== undefined);
    logTo(null);
    await client.close();
  `);
  assert.deepEqual([exit, printed], [0, "thrown by the listener true"]);
});

test("the first import of the package may come after Sinon's fake timers of the globals", async (t) => {
  const { exit, printed } = await run(t, await serverOf(t), `
    globalThis.setImmediate = globalThis.setTimeout = globalThis.queueMicrotask = () => { throw new Error("a fake was called"); };
    const { createRequire } = await import("node:module");
    const require = createRequire(process.cwd() + "/");
    for (const name of Object.keys(require.cache)) delete require.cache[name];
    const fresh = require("statestore");
    const client = await fresh.connect(url);
    console.log((await client.set("key", "value")).applied);
    await client.close();
  `);
  assert.deepEqual([exit, printed], [0, "true"]);
});
