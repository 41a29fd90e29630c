/** The flows that come with the package. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { NodeRed, clientOf, serverOf } from "./system.mjs";

/** Starts Node-RED with an example, and a client that has observed a key. */
async function exampleOf(t, name, key) {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const changes = await client.observe(key, { overflow: "all" });
  const red = await NodeRed.start(t);
  const flows = readFileSync(join(import.meta.dirname, `../examples/${name}.json`), "utf8");
  await red.deployFlows(JSON.parse(flows.replaceAll("mqtt://127.0.0.1:1883", server.url)));
  return { client, changes, red };
}

test("values are written and deleted", async (t) => {
  const { changes, red } = await exampleOf(t, "Read and write values", "line/speed");
  await red.inject("ss-values-i1");
  assert.equal((await changes.next()).value, "21.5");
  await red.inject("ss-values-i3");
  assert.equal((await changes.next()).is, "deleted");
});

test("work under a lock writes with its token, and releases it", async (t) => {
  const { client, changes, red } = await exampleOf(t, "Work under a lock", "pump/state");
  await red.inject("ss-lock-i");
  assert.equal((await changes.next()).value, "running");
  await assert.rejects(client.set("pump/state", "stopped"), { code: "FencingTokenRequired" });
  await client.lock("pump", { wait: 5_000 });
});

test("an instance becomes active", async (t) => {
  const { client, red } = await exampleOf(t, "Active and standby", "unused");
  const leaders = await client.election("line-1").observe();
  let leader = await leaders.next();
  while (leader === null) {
    leader = await leaders.next();
  }
  assert.ok(leader.holder.clientId);
  await red.deployFlows([]);
  while (leader !== null) {
    leader = await leaders.next();
  }
});
