/** What cannot be meant is refused with the argument's name, before anything is sent. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { connect, Hlc, InvalidArgumentError, InvalidSettingsError, logTo } from "statestore";
import { startServer } from "statestore/testing";
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
    "the value that change returned for \"k\"": [() => client.update("k", () => 7)],
    work: [() => client.withLock("l", undefined)],
    timeout: [() => client.get("k", { timeout: "1" }), () => client.lock("l", { timeout: 1n })],
    condition: [() => client.set("k", "v", { condition: true })],
    persist: [() => client.set("k", "v", { persist: 1 })],
    fencingToken: [() => client.set("k", "v", { fencingToken: "1:0:a" }), () => client.del("k", { fencingToken: 7 })],
    signal: [() => client.get("k", { signal: {} }), () => client.del("k", { signal: 1 })],
    overflow: [() => client.observe("k", { overflow: 7 })],
    all: [() => client.observe("k", { overflow: { all: "7" } })],
    expiresIn: [() => client.touch("k"), () => client.touch("k", "1")],
    by: [() => client.incr("k", "1"), () => client.incr("k", null), () => client.incr("k", {})],
    initial: [() => client.observe("k", { initial: 1 })],
    pattern: [() => client.observeMatching(7), async () => client.scanEntries(null)],
    refresh: [() => client.observeMatching("*", { refresh: "none" })],
    maxKeys: [() => client.observeMatching("*", { maxKeys: "7" })],
    maxBytes: [() => client.mirror("*", { maxBytes: "7" })],
    fallback: [async () => client.scanEntries("*", { fallback: 1 })],
    listener: [() => client.observeMatching("*", undefined, { maxKeys: 7 })],
    holder: [() => client.lock("l", { holder: 7 })],
    options: [() => client.mirror("*", () => {}), () => client.get("k", 7), () => client.set("k", "v", "always"), () => client.del("k", [])],
  };
  for (const [name, calls] of Object.entries(wrong)) {
    for (const call of calls) {
      await assert.rejects(call, typeError(name), `${name}: ${call}`);
    }
  }
  const bad = {
    timeout: [-1, NaN, -Infinity, 2 ** 53].map((timeout) => () => client.get("k", { timeout })),
    expiresIn: [() => client.set("k", "v", { expiresIn: -0.5 }), () => client.touch("k", -1), () => client.touch("k", NaN)],
    by: [1.5, NaN, Infinity, 2 ** 53, 2n ** 63n, -(2n ** 63n) - 1n].map((by) => () => client.incr("k", by)),
    condition: [() => client.set("k", "v", { condition: "sometimes" })],
    retry: [() => client.del("k", { retry: "often" })],
    renewal: [() => client.lock("l", { renewal: "half" }), () => client.lock("l", { renewal: 0 })],
    overflow: [() => client.observe("k", { overflow: "most" }), () => client.observe("k", { overflow: { all: 0 } })],
    all: [() => client.observe("k", { overflow: { all: 1.5 } }), () => client.observe("k", { overflow: { all: 2 ** 32 } })],
    refresh: [() => client.observeMatching("*", { refresh: 0 }), () => client.observeMatching("*", { refresh: Infinity })],
    maxKeys: [() => client.observeMatching("*", { maxKeys: 1.5 }), () => client.observeMatching("*", { maxKeys: 2 ** 32 })],
    maxBytes: [() => client.mirror("*", { maxBytes: 1.5 }), () => client.mirror("*", { maxBytes: -1 })],
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
  // The update asked what the store can do, and read the key once before its function could return something wrong.
  assert.equal(client.counters().sent - sent, 2);
});

test("an option that does not exist is refused, with the name of the nearest one", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const guard = await client.lock("door");
  const lead = await client.election("chief").campaign("ann");
  const observer = await client.observe("key");
  const mirror = await client.mirror("key*");
  await mirror.synced();
  const { sent } = client.counters();
  const [lease, election] = [client.lease("lease"), client.election("election")];
  const calls = {
    Client: {
      close: [(options) => client.close(options), "time_out", "timeout"],
      get: [(options) => client.get("k", options), "time_out", "timeout"],
      getMany: [(options) => client.getMany(["k"], options), "timeOut", "timeout"],
      exists: [(options) => client.exists("k", options), "time_out", "timeout"],
      ttl: [(options) => client.ttl("k", options), "time_out", "timeout"],
      touch: [(options) => client.touch("k", 1_000, options), "persists", "persist"],
      incr: [(options) => client.incr("k", 1, options), "expires_in", "expiresIn"],
      ping: [(options) => client.ping(options), "time_out", "timeout"],
      set: [(options) => client.set("k", "v", options), "expires_in", "expiresIn"],
      del: [(options) => client.del("k", options), "fencing-token", "fencingToken"],
      setMany: [(options) => client.setMany({ k: "v" }, options), "persists", "persist"],
      delMany: [(options) => client.delMany(["k"], options), "fencing", "fencingToken"],
      vdel: [(options) => client.vdel("k", "v", options), "retries", "retry"],
      scan: [async (options) => client.scan("*", options), "tiemout", "timeout"],
      scanEntries: [async (options) => client.scanEntries("*", options), "fall_back", "fallback"],
      observe: [(options) => client.observe("k", () => {}, options), "overFlow", "overflow"],
      observeMatching: [(options) => client.observeMatching("*", () => {}, options), "max_keys", "maxKeys"],
      mirror: [(options) => client.mirror("*", options), "max_bytes", "maxBytes"],
      update: [(options) => client.update("k", () => "v", options), "persistent", "persist"],
      capabilities: [(options) => client.capabilities(options), "timeout", "signal"],
      transact: [(options) => client.transact(client.transaction(), options), "persists", "persist"],
      lease: [async (options) => client.lease("l", options), "foreign_lease_max", "foreignLeaseMax"],
      lock: [(options) => client.lock("l", options), "waits", "wait"],
      withLock: [(options) => client.withLock("l", () => {}, options), "durationMs", "duration"],
      election: [async (options) => client.election("e", options), "renewals", "renewal"],
    },
    Transaction: {
      set: [async (options) => client.transaction().set("k", "v", options), "expires_in", "expiresIn"],
      del: [async (options) => client.transaction().del("k", options), "if_version", "ifVersion"],
    },
    Follower: { next: [(options) => observer.next(options), "timeOut", "timeout"] },
    Mirror: { synced: [(options) => mirror.synced(options), "time_out", "timeout"] },
    MirrorChanges: { next: [(options) => mirror.changes().next(options), "timeOut", "timeout"] },
    Lease: {
      acquire: [(options) => lease.acquire(options), "wait", "signal"],
      release: [(options) => lease.release(options), "timeout", "signal"],
      holder: [(options) => lease.holder(options), "timeout", "signal"],
      observe: [(options) => lease.observe(options), "overflow", "signal"],
    },
    Guard: {
      lost: [(options) => guard.lost(options), "timeout", "signal"],
      renew: [(options) => guard.renew(options), "timeout", "signal"],
      release: [(options) => guard.release(options), "time_out", "timeout"],
      leave: [(options) => guard.leave(options), "timeout", "signal"],
      set: [(options) => guard.set("k", "v", options), "expiresin", "expiresIn"],
      update: [(options) => guard.update("k", () => "v", options), "expires_in", "expiresIn"],
      del: [(options) => guard.del("k", options), "Retry", "retry"],
      vdel: [(options) => guard.vdel("k", "v", options), "timeouts", "timeout"],
    },
    Election: {
      campaign: [(options) => election.campaign("v", options), "wait", "signal"],
      leader: [(options) => election.leader(options), "timeout", "signal"],
      observe: [(options) => election.observe(options), "overflow", "signal"],
    },
    Leadership: {
      proclaim: [(options) => lead.proclaim("v", options), "timeout", "signal"],
      resign: [(options) => lead.resign(options), "time_out", "timeout"],
    },
  };
  for (const [of, methods] of Object.entries(calls)) {
    for (const [name, [call, unknown, nearest]] of Object.entries(methods)) {
      const refused = (error) =>
        error instanceof TypeError && error.message.endsWith(` ${unknown}; the nearest is ${nearest}`);
      await assert.rejects(call({ [unknown]: 1 }), refused, `${of}.${name}`);
      await assert.rejects(call({ [unknown]: undefined }), refused, `${of}.${name}`);
    }
  }
  await assert.rejects(client.observe("k", { overflow: { al: 7 } }), typeError("the nearest is all"));
  await assert.rejects(startServer({ bin: "statestored" }), typeError("the nearest is binary"));
  // The token of a guard is its own.
  await assert.rejects(guard.set("k", "v", { fencingToken: guard.token }), typeError("fencingToken"));
  // An observer of what is no function would follow a key for nobody.
  await assert.rejects(client.observe("k", undefined, { overflow: "all" }), typeError("listener"));
  assert.equal(client.counters().sent, sent);

  // Every method that is declared with options is among them.
  const declarations = readFileSync(join(import.meta.dirname, "../index.d.ts"), "utf8");
  for (const [, of, body] of declarations.matchAll(/^export (?:interface|class) (\w+)[^{]*\{\n(.*?)^\}/gms)) {
    for (const [, name] of body.matchAll(/^ {2}(\w+)(?:<T>)?\([^)]*?options\?:/gms)) {
      assert(calls[of]?.[name] !== undefined, `${of}.${name}`);
    }
  }
});

test("a URL may be an object", async (t) => {
  const server = await serverOf(t);
  for (const first of [new URL(`${server.url}?client_id=one`), { url: new URL(`${server.url}?client_id=one`) }]) {
    const client = await connect(first);
    assert.equal(client.clientId(), "one");
    await client.close();
  }
  const client = await connect(new URL(server.url), { clientId: "two" });
  assert.equal(client.clientId(), "two");
  await client.close();
});

test("settings", async () => {
  await assert.rejects(connect(), typeError("url"));
  await assert.rejects(connect(7), typeError("url"));
  await assert.rejects(connect(null), typeError("url"));
  await assert.rejects(connect(nobody, 7), typeError("settings"));
  await assert.rejects(connect(nobody, { clientID: "x" }), typeError("clientID; the nearest is clientId"));
  await assert.rejects(connect(nobody, { client_id: "x" }), typeError("the nearest is clientId"));
  await assert.rejects(connect(nobody, { tiemout: 2 }), typeError("tiemout"));
  await assert.rejects(connect({ url: nobody }, { clientId: "x" }), typeError("url must be"));
  await assert.rejects(connect(nobody, { clientId: 7 }), typeError("clientId"));
  await assert.rejects(connect(nobody, { encoding: "latin1" }), rangeError("encoding"));
  await assert.rejects(connect(nobody, { encoding: 8 }), typeError("encoding"));
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
  const version = Hlc.parse("1:0:a");
  assert.throws(() => Hlc.compare("1:0:a", version), { name: "TypeError", message: "a must be an Hlc, not string" });
  assert.throws(() => Hlc.compare(version, null), { name: "TypeError", message: "b must be an Hlc, not null" });
  assert.throws(() => version.compare({}), { name: "TypeError", message: "other must be an Hlc, not object" });
  assert.throws(() => version.equals(1), { name: "TypeError", message: "other must be an Hlc, not number" });
  assert.throws(() => logTo("LOUD", () => {}), rangeError("level"));
  assert.throws(() => logTo("INFO"), typeError("listener"));
});

test("mistakes of callers are refused with advice", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const typeError = (message) => (error) => error instanceof TypeError && error.message.includes(message);
  for (const url of [3, true, null, undefined, ["mqtt://h"]]) {
    await assert.rejects(connect(url), typeError("url must be a string, a URL, or an object with settings"));
  }
  await assert.rejects(connect({ url: server.url, ca: "ca.pem" }), typeError("there is no setting ca; the nearest is caFile"));
  for (const method of ["on", "once", "addListener", "prependListener", "prependOnceListener"]) {
    assert.throws(() => client[method]("change", () => {}), typeError("a client has no event change"));
    client[method]("state", () => {});
  }
  const broken = "a\ud800b";
  for (const call of [() => client.get(broken), () => client.set("k", broken), () => client.getMany(["k", broken]), () => client.observe(broken)]) {
    await assert.rejects(call(), { code: "InvalidArgument", message: /has a surrogate without its pair/ });
  }
  await assert.rejects(client.getMany(["k", broken]), { message: /^keys\[1\] / });
  assert.equal((await client.set("k", "\u{1f600}", { timeout: Infinity })).applied, true);
  assert.equal(String((await client.get("k", { timeout: Infinity })).value), "\u{1f600}");
  await (await client.lock("door", { wait: Infinity })).release();
  assert.deepEqual(JSON.parse(JSON.stringify({ client })), { client: { clientId: client.clientId(), state: "connected" } });
});
