/** The package in a realm of its own, as test environments such as Jest's jsdom have it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { test } from "node:test";
import vm from "node:vm";
import { serverOf } from "./system.mjs";

const DIST = join(import.meta.dirname, "../dist");
/** What jsdom has of the globals beyond the language. */
const GLOBALS = ["AbortController", "AbortSignal", "URL", "process", "setTimeout", "clearTimeout", "console"];

/** Loads the package into a realm that has only these globals, in the way of Jest's module loader. */
function loadedInto(globals) {
  const realm = vm.createContext(Object.fromEntries(globals.map((name) => [name, globalThis[name]])));
  const loaded = new Map();
  const load = (path) => {
    if (!loaded.has(path)) {
      const [module, native] = [{ exports: {} }, createRequire(path)];
      loaded.set(path, module);
      const require = (name) => (name.startsWith("./") ? load(join(dirname(path), name)) : native(name));
      const wrapped = `(function (exports, require, module, __filename, __dirname) {${readFileSync(path, "utf8")}\n})`;
      vm.runInContext(wrapped, realm, { filename: path })(module.exports, require, module, path, dirname(path));
    }
    return loaded.get(path).exports;
  };
  return { realm, statestore: load(join(DIST, "index.js")) };
}

test("it works in a realm without TextDecoder and with classes of its own", async (t) => {
  const server = await serverOf(t);
  const { realm, statestore } = loadedInto(GLOBALS);
  const client = await statestore.connect(new URL(server.url), { encoding: "utf8" });
  t.after(() => client.close());
  const value = vm.runInContext("new Uint8Array([104, 105])", realm);
  assert.equal((await client.set("key", value)).applied, true);
  assert.equal((await client.get(Buffer.from("key"))).value, "hi");
  const aborter = new AbortController();
  aborter.abort();
  await assert.rejects(client.get("key", { signal: aborter.signal }), (error) => error instanceof statestore.CancelledError);
  await assert.rejects(client.get("key", { signal: {} }), /signal must be an AbortSignal/);
  assert.throws(() => client.lease(""), (error) => error instanceof statestore.InvalidArgumentError);
});

test("signals and URLs of other realms are taken", async (t) => {
  const server = await serverOf(t);
  const { statestore } = loadedInto(GLOBALS.filter((name) => !["AbortSignal", "URL"].includes(name)));
  const client = await statestore.connect(new URL(server.url));
  t.after(() => client.close());
  const aborter = new AbortController();
  assert.equal(await client.get("key", { signal: aborter.signal }), null);
});
