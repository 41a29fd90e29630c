/** What is published, installed into an empty project: it loads, its types fit, and the examples do what they say. */
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { clientOf, serverOf } from "./system.mjs";

const ROOT = join(import.meta.dirname, "..");
let project;

before(() => {
  project = mkdtempSync(join(tmpdir(), "statestore-project-"));
  const packed = execFileSync(process.execPath, [join(ROOT, "scripts/pack.mjs"), project], { encoding: "utf8" });
  writeFileSync(join(project, "package.json"), JSON.stringify({ private: true }));
  const packages = packed.trim().split("\n");
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", ...packages], { cwd: project });
  cpSync(join(ROOT, "examples"), join(project, "examples"), { recursive: true });
  for (const name of ["@types", "undici-types"]) {
    symlinkSync(join(ROOT, "node_modules", name), join(project, "node_modules", name));
  }
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  try {
    execFileSync(process.execPath, [tsc, "-p", "examples", "--noEmit", "false"], { cwd: project, encoding: "utf8" });
  } catch (error) {
    throw new Error(`the examples do not compile:\n${error.stdout}`);
  }
});

after(() => rmSync(project, { recursive: true }));

/** Starts an example, and gives its lines. */
function start(t, name, server, environment = {}) {
  const child = spawn(process.execPath, [join(project, "examples", name)], {
    env: { ...process.env, STATESTORE_URL: server.url, ...environment },
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    line: async () => (await lines.next()).value,
    end: async () => {
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      assert.deepEqual(await exited, [0, null], name);
    },
    exited: once(child, "exit"),
  };
}

test("nothing runs when it is installed", () => {
  const manifest = JSON.parse(readFileSync(join(project, "node_modules/statestore/package.json"), "utf8"));
  assert.equal(manifest.scripts, undefined);
  assert.equal(manifest.dependencies, undefined);
  assert.deepEqual(Object.keys(manifest.peerDependencies), Object.keys(manifest.peerDependenciesMeta));
  assert.equal(Object.keys(manifest.optionalDependencies).length, 7);
});

test("each package has the texts of its licences", () => {
  for (const name of ["statestore", `@statestore/${readdirSync(join(project, "node_modules/@statestore"))[0]}`]) {
    for (const text of ["LICENSE-MIT", "LICENSE-APACHE"]) {
      const packed = readFileSync(join(project, "node_modules", name, text), "utf8");
      assert.equal(packed, readFileSync(join(ROOT, "../..", text), "utf8"), `${text} of ${name}`);
    }
  }
});

test("loading the package opens no connection", () => {
  // A report would have the names of all peers of the process looked up.
  const refuse = "process.report.getReport = () => { throw new Error('a report was asked for'); };";
  const load = "console.log(typeof require('statestore').connect)";
  assert.equal(execFileSync(process.execPath, ["--eval", refuse + load], { cwd: project, encoding: "utf8" }), "function\n");
});

test("the package loads no slow module of Node", () => {
  const script = `
    const Module = require("node:module");
    const { _load } = Module;
    const wanted = new Set();
    Module._load = function (name) {
      wanted.add(name.replace(/^node:/, ""));
      return _load.apply(this, arguments);
    };
    require("statestore");
    console.log([...wanted].join());
  `;
  const wanted = execFileSync(process.execPath, ["--eval", script], { cwd: project, encoding: "utf8" }).trim().split(",");
  assert(wanted.includes("./client.js") && wanted.includes("events"), wanted.join());
  for (const name of ["child_process", "crypto", "dns", "http", "net", "readline", "worker_threads"]) {
    assert(!wanted.includes(name), name);
  }
});

/** Other runtimes have Node-API as well; they are tried where they are. */
const RUNTIMES = { node: [process.execPath], bun: ["bun"], deno: ["deno", "run", "--allow-all", "--node-modules-dir=manual"] };

for (const [name, [program, ...options]] of Object.entries(RUNTIMES)) {
  const isHere = spawnSync(program, ["--version"]).status === 0;
  test(`the tour in ${name}`, { skip: isHere ? false : `there is no ${name}` }, async (t) => {
    const server = await serverOf(t);
    const child = spawnSync(program, [...options, join(project, "examples/tour.mjs")], {
      cwd: project,
      encoding: "utf8",
      env: { ...process.env, STATESTORE_URL: server.url },
      timeout: 60_000,
    });
    assert.equal(child.stdout, "hello set\ntrue true\n2000 true\nInvalidArgument\n", child.stderr);
    assert.equal(child.status, 0, child.stderr);
  });
}

for (const compiler of ["typescript-oldest", "typescript-newest"]) {
  test(`the types need nothing but @types/node with ${compiler}`, () => {
    const folder = join(project, compiler);
    mkdirSync(folder);
    cpSync(join(ROOT, "examples/types.mts"), join(folder, "types.mts"));
    // As little as a user can have: no library but that of the language, and no types that the package does not ask for.
    const compilerOptions = { target: "ES2022", module: "Node16", moduleResolution: "Node16", types: [], strict: true, noEmit: true };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.mts"] }));
    const tsc = join(ROOT, "node_modules", compiler, "bin/tsc");
    const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
    assert.equal(status, 0, stdout);
  });
}

for (const name of ["quickstart.mjs", "quickstart.cjs"]) {
  test(`${name} prints what was set`, async (t) => {
    const example = start(t, name, await serverOf(t));
    assert.equal(await example.line(), "hello");
    assert.equal(await example.line(), "{");
    assert.equal(await example.line(), "  is: 'set',");
    assert.deepEqual(await example.exited, [0, null]);
  });
}

test("http-cache.mjs serves values that another instance stored", async (t) => {
  const server = await serverOf(t);
  const [one, two] = [start(t, "http-cache.mjs", server, { PORT: "0" }), start(t, "http-cache.mjs", server, { PORT: "0" })];
  const [first, second] = [await one.line(), await two.line()];
  assert.equal((await fetch(second)).status, 404);
  assert.equal((await fetch(first, { method: "PUT", body: "blue" })).status, 204);
  let text;
  do {
    const response = await fetch(second);
    text = await response.text();
  } while (text !== "blue");
  await one.end();
  await two.end();
});

test("leader.mjs has one leader, and another one after it", async (t) => {
  const server = await serverOf(t);
  const one = start(t, "leader.mjs", server, { NAME: "one" });
  assert.equal(await one.line(), "one stands by");
  assert.equal(await one.line(), "one leads");
  const two = start(t, "leader.mjs", server, { NAME: "two" });
  assert.equal(await two.line(), "two stands by");
  await one.end();
  assert.equal(await two.line(), "two leads");
  await two.end();
});

test("server-sent-events.mjs pushes changes", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const example = start(t, "server-sent-events.mjs", server, { PORT: "0" });
  const response = await fetch(`${await example.line()}/room/1`);
  const chunks = response.body.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
  let seen = "";
  const sees = async (event) => {
    while (!seen.includes(event)) {
      seen += (await chunks.next()).value;
    }
  };
  await sees('event: deleted\ndata: ""\n\n');
  await client.set("room/1", "warm");
  await sees('event: set\ndata: "warm"\n\n');
  await client.del("room/1");
  await chunks.return();
  await example.end();
});
