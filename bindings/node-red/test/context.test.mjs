/** The context store: by itself, and in two instances of Node-RED. */
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { proxyOf } from "./proxy.mjs";
import { NodeRed, answer, clientOf, entry, serverOf } from "./system.mjs";

const createContext = createRequire(import.meta.url)("../context.js");

/** A store whose calls return promises, closed with its test. */
async function contextOf(t, server, config) {
  const context = createContext({ url: server.url, settings: { userDir: "/" }, ...config });
  await context.open();
  t.after(() => context.close());
  const call = (name, ...args) =>
    new Promise((resolve, reject) => context[name](...args, (error, ...values) => (error ? reject(error) : resolve(values))));
  return {
    get: async (scope, key) => (await call("get", scope, key))[0],
    getMany: (scope, keys) => call("get", scope, keys),
    set: (scope, key, value) => call("set", scope, key, value),
    keys: async (scope) => (await call("keys", scope))[0].sort(),
    context,
  };
}

test("values are JSON in the store, and absent ones are undefined", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const { get, getMany, set } = await contextOf(t, server);
  await set("global", "line", { speeds: [1, 2] });
  assert.equal((await client.get("node-red/global/line")).value, '{"speeds":[1,2]}');
  assert.deepEqual(await get("global", "line"), { speeds: [1, 2] });
  assert.equal(await get("global", "line.speeds[1]"), 2);
  assert.equal(await get("global", 'line["speeds"].length'), 2);
  assert.equal(await get("global", "line.absent.deeper"), undefined);
  assert.equal(await get("global", "absent"), undefined);
  await set("flow", ["a", "b", "c"], [1, null]);
  assert.deepEqual(await getMany("flow", ["c", "b", "a", "d"]), [null, null, 1, undefined]);
  await set("flow", "a", undefined);
  assert.equal(await client.get("node-red/flow/a"), null);
  await assert.rejects(set("flow", "a", () => {}), /a function has no JSON/);
});

test("a path into a value changes a part of it", async (t) => {
  const server = await serverOf(t);
  const { get, set } = await contextOf(t, server);
  const other = await contextOf(t, server);
  await set("flow", "line.speeds[1]", 5);
  await set("flow", "line.name", "north");
  assert.deepEqual(await get("flow", "line"), { speeds: [null, 5], name: "north" });
  await set("flow", "line.speeds", undefined);
  assert.deepEqual(await get("flow", "line"), { name: "north" });
  const parts = Array.from({ length: 20 }, (_, index) => index);
  await Promise.all(parts.map((part) => (part % 2 === 0 ? set : other.set)("flow", `counts.n${part}`, part)));
  assert.deepEqual(Object.values(await get("flow", "counts")).sort((a, b) => a - b), parts, "no change of another instance is lost");
  await set("flow", "plain", 1);
  await assert.rejects(set("flow", "plain.part", 1), /its owner is a number/);
  for (const key of ["", ".a", "a..b", "a[", "a[x]", "__proto__.polluted", "a b"]) {
    await assert.rejects(get("flow", key), { code: "INVALID_EXPR" }, key);
  }
});

test("writes without a callback keep their order", async (t) => {
  const server = await serverOf(t);
  const { context, get, keys } = await contextOf(t, server);
  for (let count = 0; count < 50; count += 1) {
    context.set("flow", "count", { value: count });
    context.set("flow", "count.twice", 2 * count);
  }
  assert.deepEqual(await get("flow", "count"), { value: 49, twice: 98 });
  context.set("flow", "last", 1);
  assert.deepEqual(await keys("flow"), ["count", "last"]);
});

test("keys and scopes of any text do not meet", async (t) => {
  const server = await serverOf(t);
  const { get, keys, set } = await contextOf(t, server, { prefix: "site/1" });
  const names = ["a/b", "a*", "a%2Fb", "größe", "50%"];
  for (const [index, name] of names.entries()) {
    await set("node:flow", `["${name}"]`, index);
  }
  await set("node", "other", 1);
  await set("*", "star", 1);
  assert.deepEqual(await keys("node:flow"), [...names].sort());
  assert.deepEqual(await keys("node"), ["other"]);
  assert.deepEqual(await keys("*"), ["star"]);
  assert.equal(await get("node:flow", '["a%2Fb"]'), 2);
  for (const prefix of ["", "a*", "a[b]"]) {
    assert.throws(() => createContext({ prefix }), TypeError);
  }
});

test("access without a callback is an error", async (t) => {
  const server = await serverOf(t);
  const { context } = await contextOf(t, server);
  assert.throws(() => context.get("global", "key"), /asynchronous only/);
  assert.throws(() => context.keys("global"), /asynchronous only/);
});

test("contexts of former nodes are deleted only if the configuration says so", async (t) => {
  const server = await serverOf(t);
  const shared = await contextOf(t, server);
  const owner = await contextOf(t, server, { clean: true });
  for (const scope of ["global", "flow", "old", "node:flow", "old:flow"]) {
    await shared.set(scope, "key", 1);
  }
  await shared.context.clean(["flow", "node"]);
  assert.equal(await shared.get("old", "key"), 1);
  await owner.context.clean(["flow", "node"]);
  const left = await Promise.all(["global", "flow", "old", "node:flow", "old:flow"].map((scope) => shared.get(scope, "key")));
  assert.deepEqual(left, [1, 1, undefined, 1, undefined]);
  await owner.context.delete("flow");
  assert.deepEqual([await shared.get("flow", "key"), await shared.get("node:flow", "key")], [undefined, 1]);
});

test("it opens without a store, and works when the store comes", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  proxy.cut();
  const warned = new Promise((resolve) => process.once("warning", resolve));
  const { context, get, set } = await contextOf(t, proxy, { timeout: 200 });
  assert.match((await warned).message, /the flows start without the context store/);
  await assert.rejects(get("global", "key"), { code: "TimedOut" });
  const failed = new Promise((resolve) => process.once("warning", resolve));
  context.set("global", "key", 1);
  assert.match((await failed).message, /a value of the context is not stored/);
  proxy.restore();
  while (!(await set("global", "key", 2).then(() => true, (error) => assert.equal(error.code, "TimedOut"))));
  assert.equal(await get("global", "key"), 2);
  await assert.rejects(contextOf(t, { url: "mqtt://" }), { code: "InvalidSettings" });
});

test("two instances of Node-RED share flow and global context", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const module = JSON.stringify("node-red-contrib-statestore/context");
  const contextStorage = `{ default: { module: "memory" }, shared: { module: require(${module}), config: { url: "${server.url}" } } }`;
  const flow = ["flow", "global"].flatMap((kind) => [
    ...entry(`${kind}-set`, `${kind}-setter`),
    { id: `${kind}-setter`, type: "change", rules: [{ t: "set", p: "#:(shared)::line.speed", pt: kind, to: "payload", tot: "msg" }], wires: [["answer"]] },
    ...entry(`${kind}-get`, `${kind}-getter`),
    { id: `${kind}-getter`, type: "change", rules: [{ t: "set", p: "payload", pt: "msg", to: "#:(shared)::line.speed", tot: kind }], wires: [["answer"]] },
  ]);
  const instances = await Promise.all([NodeRed.start(t, { contextStorage }), NodeRed.start(t, { contextStorage })]);
  await Promise.all(instances.map((red) => red.deploy([...answer(), ...flow])));
  const [first, second] = instances;
  for (const [kind, scope] of [["flow", "tab"], ["global", "global"]]) {
    await first.send(`${kind}-set`, { payload: 7 });
    assert.equal((await second.send(`${kind}-get`)).payload, 7, kind);
    assert.equal((await client.get(`node-red/${scope}/line`)).value, '{"speed":7}');
  }
  // The sidebar of the editor reads it, too.
  const shown = await (await fetch(`${second.url}/context/global?store=shared`)).json();
  assert.equal(shown.shared.line.msg, '{"speed":7}');
  // An instance without the flow does not delete its context.
  await second.deploy([]);
  assert.equal((await first.send("flow-get")).payload, 7);
});
