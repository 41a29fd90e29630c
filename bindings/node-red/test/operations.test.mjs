/** The nodes that read, write and delete, in flows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { NodeRed, answer, clientOf, configOf, entry, serverOf } from "./system.mjs";

const get = (more) => ({ id: "get", type: "statestore-get", server: "server", key: "topic", keyType: "msg", format: "text", wires: [["answer"]], ...more });
const set = (more) => ({
  id: "set", type: "statestore-set", server: "server", key: "topic", keyType: "msg", value: "payload", valueType: "msg",
  condition: "always", expiresIn: "", timeout: "", coalesce: false, wires: [["answer"]], ...more,
});
const remove = (more) => ({ id: "delete", type: "statestore-delete", server: "server", key: "topic", keyType: "msg", condition: "always", wires: [["answer"]], ...more });

test("a value is written, read and deleted", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const red = await NodeRed.start(t);
  const json = get({ id: "json", format: "json" });
  await red.deploy([configOf(server), ...answer(), ...entry("get", "get"), get(), ...entry("json", "json"), json, ...entry("set", "set"), set(), ...entry("delete", "delete"), remove()]);

  const written = await red.send("set", { topic: "line/speed", payload: { value: 21.5 } });
  assert.equal(written.applied, true);
  const stored = await client.get("line/speed");
  assert.deepEqual([stored.value, stored.version.text], ['{"value":21.5}', written.version]);

  const parsed = await red.send("json", { topic: "line/speed" });
  assert.deepEqual([parsed.payload, parsed.exists, parsed.version, parsed.key], [{ value: 21.5 }, true, written.version, "line/speed"]);
  assert.equal((await red.send("get", { topic: "line/speed" })).payload, '{"value":21.5}');

  assert.equal((await red.send("delete", { topic: "line/speed" })).outcome, "deleted");
  assert.equal((await red.send("delete", { topic: "line/speed" })).outcome, "absent");
  const absent = await red.send("get", { topic: "line/speed" });
  assert.deepEqual([absent.payload, absent.exists, absent.version], [null, false, null]);
});

test("conditions, expiries and fencing tokens reach the store", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const red = await NodeRed.start(t);
  await red.deploy([
    configOf(server), ...answer(),
    ...entry("set", "set"), set({ expiresIn: "3600" }),
    ...entry("version", "version"), set({ id: "version", condition: "if_version" }),
    ...entry("absent", "absent"), set({ id: "absent", condition: "if_absent" }),
    ...entry("value", "value"), remove({ id: "value", condition: "if_value" }),
    ...entry("delete", "delete"), remove({ condition: "if_version" }),
  ]);
  const first = await red.send("set", { topic: "part", payload: "1" });
  const { expiresIn } = await client.get("part", { remaining: true });
  assert.ok(expiresIn > 3_500_000 && expiresIn <= 3_600_000, String(expiresIn));

  assert.equal((await red.send("absent", { topic: "part", payload: "2" })).applied, false);
  const second = await red.send("version", { topic: "part", payload: "2", version: first.version });
  assert.equal(second.applied, true);
  const late = await red.send("version", { topic: "part", payload: "3", version: first.version });
  assert.deepEqual([late.applied, late.version], [false, second.version]);
  assert.equal((await red.send("version", { topic: "new", payload: "1", version: null })).applied, true);
  assert.equal((await red.send("version", { topic: "new", payload: "2", version: null })).applied, false);

  assert.equal((await red.send("value", { topic: "part", payload: "1" })).outcome, "mismatch");
  assert.equal((await red.send("delete", { topic: "part", version: first.version })).outcome, "mismatch");
  assert.equal((await red.send("delete", { topic: "part", version: second.version })).outcome, "deleted");

  const fence = await red.send("set", { topic: "fenced", payload: "1", fencingToken: second.version });
  assert.equal(fence.applied, true);
  assert.equal((await red.send("set", { topic: "fenced", payload: "2" })).error.code, "FencingTokenRequired");
});

test("an error goes to the catch nodes with its kind", async (t) => {
  const server = await serverOf(t);
  const red = await NodeRed.start(t);
  const alone = set({ id: "alone", server: "" });
  await red.deploy([configOf(server), ...answer(), ...entry("set", "set"), set(), ...entry("alone", "alone"), alone]);
  assert.match((await red.send("set", { payload: "1" })).error.message, /the key is not text: undefined/);
  assert.match((await red.send("set", { topic: "key" })).error.message, /the value is undefined/);
  assert.match((await red.send("alone", { topic: "key", payload: "1" })).error.message, /no server is chosen/);
});
