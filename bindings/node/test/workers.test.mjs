/** Worker threads: each has clients of its own, and may end in the middle of everything. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { clientOf, serverOf } from "./system.mjs";

const WORKER = `
  import { connect } from "statestore";
  import { parentPort, workerData } from "node:worker_threads";
  const client = await connect(workerData.url);
`;

function startWorker(t, server, code) {
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`), { workerData: { url: server.url } });
  t.after(() => worker.terminate());
  return worker;
}

/** A module without a file has no package, so it is told where the client is. */
function program(code) {
  return (WORKER + code).replaceAll('"statestore"', JSON.stringify(new URL("../index.mjs", import.meta.url).href));
}

test("workers have clients of their own", async (t) => {
  const server = await serverOf(t);
  const workers = Array.from({ length: 3 }, (_, number) =>
    startWorker(t, server, program(`
      for (let i = 0; i < 50; i += 1) {
        await client.update("count", (old) => String(Number(old?.value ?? 0) + 1));
      }
      parentPort.postMessage(${number});
      await client.close();
    `)),
  );
  const ends = workers.map((worker) => Promise.all([once(worker, "message"), once(worker, "exit")]));
  assert.deepEqual(await Promise.all(ends), [[[0], [0]], [[1], [0]], [[2], [0]]]);
  const client = await clientOf(t, server);
  assert.equal((await client.get("count")).value.toString(), "150");
});

test("a worker that is stopped in the middle of its calls leaves nothing behind", async (t) => {
  const server = await serverOf(t);
  const code = program(`
    await client.observe("key", () => {}, { overflow: "all" });
    const guard = await client.lock("door/" + Math.random());
    guard.signal;
    const work = async () => { for (;;) await Promise.all([client.set("key", "value"), client.get("key")]); };
    for (let i = 0; i < 32; i += 1) work();
    client.update("other", () => new Promise(() => {}));
    parentPort.postMessage("busy");
  `);
  for (let round = 0; round < 10; round += 1) {
    const workers = Array.from({ length: 2 }, () => startWorker(t, server, code));
    await Promise.all(workers.map((worker) => once(worker, "message")));
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
  // The thread of the library ends with the last client, and its connections with it.
  while (threads().length > 0) {
    await new Promise(setImmediate);
  }
  const client = await clientOf(t, server);
  assert.equal((await client.get("key")).value.toString(), "value");
});

/** The threads of the library in this process; none where the system does not tell. */
function threads() {
  if (process.platform !== "linux") {
    return [];
  }
  return readdirSync("/proc/self/task").filter((task) => {
    try {
      return readFileSync(`/proc/self/task/${task}/comm`, "utf8").startsWith("statestore");
    } catch {
      return false; // it ended meanwhile
    }
  });
}
