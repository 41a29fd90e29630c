/** Iterators: each ends at once when it is left, also while it waits. */
import assert from "node:assert/strict";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { test } from "node:test";
import { clientOf, serverOf } from "./system.mjs";

const OVER = { done: true, value: undefined };

/** An iterator of each kind that has nothing to give, with the follower that it is of. */
async function idle(client) {
  await client.lock("door");
  const followers = [
    await client.observe("key"),
    await client.observe("key", { overflow: "all" }),
    await client.lease("door").observe(),
    await client.election("chief").observe(),
    await client.observeMatching("none/*"),
  ];
  for (const follower of followers.slice(2)) {
    // At first the present holder, or that no key matches.
    await follower.next();
  }
  return followers;
}

test("return() of an iterator ends its wait and its follower at once", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  for (const follower of await idle(client)) {
    const iterator = follower[Symbol.asyncIterator]();
    const waiting = [iterator.next(), iterator.next()];
    assert.deepEqual(await iterator.return("left"), { done: true, value: "left" });
    assert.deepEqual(await Promise.all(waiting), [OVER, OVER]);
    assert.deepEqual(await iterator.next(), OVER);
    assert.equal(follower.lostReason(), "closed");
    assert.equal(await follower.next(), undefined);
  }
});

test("throw() of an iterator ends its wait and its follower at once", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const failure = new Error("thrown by the consumer");
  for (const follower of await idle(client)) {
    const iterator = follower[Symbol.asyncIterator]();
    const waiting = iterator.next();
    await assert.rejects(iterator.throw(failure), failure);
    assert.deepEqual(await waiting, OVER);
    assert.equal(follower.lostReason(), "closed");
  }
});

test("destroying a stream of an observer, or its target, ends the observer", async (t) => {
  const server = await serverOf(t);
  const [client, writer] = [await clientOf(t, server), await clientOf(t, server)];
  for (const follower of await idle(client)) {
    const stream = Readable.from(follower);
    // It waits for the next item.
    stream.resume();
    stream.destroy();
    await new Promise((resolve) => stream.once("close", resolve));
    assert.equal(follower.lostReason(), "closed");
  }
  const observer = await client.observe("other");
  const target = new PassThrough({ objectMode: true });
  // Of an iterable itself, a pipeline of Node calls return() only with the next item.
  const piped = pipeline(Readable.from(observer), target);
  await writer.set("other", "value");
  await new Promise((resolve) => target.once("data", resolve));
  target.destroy();
  await assert.rejects(piped, { code: "ERR_STREAM_PREMATURE_CLOSE" });
  assert.equal(observer.lostReason(), "closed");
});

test("an iterator gives its items in order and the error of its end once", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { clientId: "twin" });
  const observer = await client.observe("key", { overflow: "all" });
  const iterator = observer[Symbol.asyncIterator]();
  const waiting = [iterator.next(), iterator.next()];
  await client.set("key", "one");
  await client.set("key", "two");
  assert.deepEqual((await Promise.all(waiting)).map(({ value }) => String(value.value)), ["one", "two"]);
  await clientOf(t, server, { clientId: "twin" });
  await assert.rejects(iterator.next(), { code: "Closed" });
  assert.deepEqual(await iterator.next(), OVER);
});

test("return() of a scan ends at once, while its first page is awaited too", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  await client.setMany([["a", "1"], ["b", "2"], ["c", "3"]]);
  const started = client.scan("*");
  assert.equal(typeof (await started.next()).value.length, "number");
  assert.deepEqual(await started.return(), OVER);
  assert.deepEqual(await started.next(), OVER);
  const parallel = client.scan("*");
  const keys = await Promise.all([parallel.next(), parallel.next(), parallel.next(), parallel.next()]);
  assert.deepEqual(keys.map(({ value }) => value && String(value)).sort(), ["a", "b", "c", undefined]);
  await server.kill();
  for (const waits of [client.scan("*", { timeout: 600_000 }), client.scanEntries("*", { timeout: 600_000 })]) {
    const [first, second] = [waits.next(), waits.next()];
    assert.deepEqual(await waits.return(), OVER);
    assert.deepEqual(await Promise.all([first, second]), [OVER, OVER]);
  }
  await assert.rejects(client.scan("*", { timeout: 600_000 }).throw(new Error("left")), { message: "left" });
});
