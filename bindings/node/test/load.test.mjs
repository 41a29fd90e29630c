/** Many calls: bounded batches, bounded memory. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { connect } from "statestore";
import { clientOf, serverOf } from "./system.mjs";

/** Most promises that are settled in one turn of the event loop; see `MOST` in src/desk.rs. */
const BATCH = 128;

test("promises are settled in batches, each small enough to let the event loop go on", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  await client.set("key", "value");
  const before = client.counters().wakeUps;
  const calls = 20_000;
  const settled = [];
  let turn = 0;
  let isOver = false;
  const nextTurn = () => {
    turn += 1;
    if (!isOver) {
      setImmediate(nextTurn);
    }
  };
  nextTurn();
  await Promise.all(
    Array.from({ length: calls }, () =>
      client.get("key").then(() => {
        settled[turn] = (settled[turn] ?? 0) + 1;
      }),
    ),
  );
  isOver = true;
  const wakeUps = client.counters().wakeUps - before;
  assert.equal(settled.reduce((sum, count) => sum + count, 0), calls);
  assert(Math.max(...settled.filter(Boolean)) <= BATCH, `${Math.max(...settled.filter(Boolean))} in one turn`);
  assert(wakeUps < calls / 4, `${wakeUps} calls into the event loop for ${calls} results`);
});

test("100,000 calls leave nothing behind", { timeout: 180_000 }, async (t) => {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc");
  const client = await clientOf(t, await serverOf(t));
  const work = async (calls) => {
    const controller = new AbortController();
    for (let i = 0; i < calls; i += 1) {
      const key = `key/${i % 100}`;
      if (i % 10 === 0) {
        await client.set(key, "x".repeat(100), { signal: controller.signal });
      } else if (i % 1000 === 1) {
        await assert.rejects(client.get(""), RangeError);
      } else {
        await client.get(key);
      }
    }
  };
  const parallel = (calls) => Promise.all(Array.from({ length: 50 }, () => work(calls / 50)));
  const memory = async () => {
    // Buffers are let go of in the background after they were collected.
    for (let i = 0; i < 5; i += 1) {
      gc();
      await new Promise(setImmediate);
    }
    const { heapUsed, external, rss } = process.memoryUsage();
    return { heap: heapUsed + external, rss };
  };
  await parallel(20_000);
  const before = await memory();
  await parallel(100_000);
  const after = await memory();
  const { inFlight, queued } = client.counters();
  assert.deepEqual({ inFlight, queued }, { inFlight: 0, queued: 0 });
  assert(after.heap - before.heap < 1 << 20, `the heap grew by ${after.heap - before.heap} bytes`);
  assert(after.rss - before.rss < 64 << 20, `the process grew by ${after.rss - before.rss} bytes`);
});

test("clients that come and go leave no memory behind", async (t) => {
  const server = await serverOf(t);
  const churn = async (times) => {
    for (let i = 0; i < times; i += 1) {
      const client = await connect(server.url);
      await client.close();
    }
    return process.memoryUsage().rss;
  };
  const before = await churn(100);
  const after = await churn(400);
  // What one of them takes is more than 40 KiB.
  assert(after - before < 8 << 20, `the process grew by ${after - before} bytes`);
});
