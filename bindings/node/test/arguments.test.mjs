/** What cannot be meant is refused with the argument's name, before anything is sent. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, Hlc, InvalidArgumentError, InvalidSettingsError, logTo } from "statestore";
import { clientOf, serverOf } from "./system.mjs";

const nobody = "mqtt://127.0.0.1:1";
const typeError = (name) => (error) => error instanceof TypeError && error.message.includes(name);
const rangeError = (name) => (error) =>
  error instanceof RangeError && error.code === "InvalidArgument" && error.outcome === "not_done" && error.message.includes(name);

test("arguments of calls", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const { sent } = client.counters();
  const wrong = {
    key: [() => client.get(7), () => client.get(), () => client.set(null, "v"), () => client.observe([]), () => client.del({})],
    value: [() => client.set("k", 7), () => client.set("k"), () => client.vdel("k", new Float64Array(1))],
    keys: [() => client.getMany("abc"), () => client.getMany(7), () => client.getMany(Buffer.from("abc"))],
    "keys[1]": [() => client.getMany(["a", 7])],
    change: [() => client.update("k", "v")],
    "what change returns": [() => client.update("k", () => 7)],
    work: [() => client.withLock("l", undefined)],
    timeout: [() => client.get("k", { timeout: "1" }), () => client.lock("l", { timeout: 1n })],
    condition: [() => client.set("k", "v", { condition: true })],
    persist: [() => client.set("k", "v", { persist: 1 })],
    fencingToken: [() => client.set("k", "v", { fencingToken: "1:0:a" }), () => client.del("k", { fencingToken: 7 })],
    signal: [() => client.get("k", { signal: {} }), () => client.del("k", { signal: 1 })],
    overflow: [() => client.observe("k", { overflow: 7 })],
    all: [() => client.observe("k", { overflow: { all: "7" } })],
    holder: [() => client.lock("l", { holder: 7 })],
    options: [() => client.get("k", 7), () => client.set("k", "v", "always"), () => client.del("k", [])],
  };
  for (const [name, calls] of Object.entries(wrong)) {
    for (const call of calls) {
      await assert.rejects(call, typeError(name), `${name}: ${call}`);
    }
  }
  const bad = {
    timeout: [-1, NaN, Infinity, 2 ** 53].map((timeout) => () => client.get("k", { timeout })),
    expiresIn: [() => client.set("k", "v", { expiresIn: -0.5 })],
    condition: [() => client.set("k", "v", { condition: "sometimes" })],
    retry: [() => client.del("k", { retry: "often" })],
    renewal: [() => client.lock("l", { renewal: "half" }), () => client.lock("l", { renewal: 0 })],
    overflow: [() => client.observe("k", { overflow: "most" }), () => client.observe("k", { overflow: { all: 0 } })],
    all: [() => client.observe("k", { overflow: { all: 1.5 } }), () => client.observe("k", { overflow: { all: 2 ** 32 } })],
  };
  for (const [name, calls] of Object.entries(bad)) {
    for (const call of calls) {
      await assert.rejects(call, rangeError(name), `${name}: ${call}`);
    }
  }
  for (const call of [() => client.lease(7), () => client.election(null), () => client.scan(7), () => client.lease("l", 7)]) {
    assert.throws(call, TypeError, `${call}`);
  }
  assert.throws(() => client.lease("l", { duration: -1 }), rangeError("duration"));
  // The update read the key once before its function could return something wrong.
  assert.equal(client.counters().sent - sent, 1);
});

test("settings", async () => {
  await assert.rejects(connect(), typeError("url"));
  await assert.rejects(connect(7), typeError("url"));
  await assert.rejects(connect(null), typeError("url"));
  await assert.rejects(connect(nobody, 7), typeError("settings"));
  await assert.rejects(connect(nobody, { clientID: "x" }), typeError("clientID"));
  await assert.rejects(connect(nobody, { clientId: 7 }), typeError("clientId"));
  await assert.rejects(connect(nobody, { tls: "yes" }), typeError("tls"));
  await assert.rejects(connect({ host: "localhost", port: "1883" }), typeError("port"));
  await assert.rejects(connect({ host: "localhost", port: 65_536 }), rangeError("port"));
  await assert.rejects(connect(nobody, { maxInFlight: 1.5 }), rangeError("maxInFlight"));
  await assert.rejects(connect(nobody, { keepAlive: -1 }), rangeError("keepAlive"));
  for (const settings of [{}, { url: nobody, env: true }, { url: nobody, host: "x" }, { url: "http://x" }, { url: "" }]) {
    await assert.rejects(connect(settings), InvalidSettingsError, JSON.stringify(settings));
  }
  await assert.rejects(connect(nobody, { caFile: "/no/such/file", tls: true }), InvalidSettingsError);
});

test("versions and log levels", () => {
  assert.throws(() => Hlc.parse(7), TypeError);
  assert.throws(() => Hlc.parse("7"), InvalidArgumentError);
  assert.throws(() => new Hlc("1:0:a"), TypeError);
  assert.throws(() => logTo("LOUD", () => {}), rangeError("level"));
  assert.throws(() => logTo("INFO"), typeError("listener"));
});
