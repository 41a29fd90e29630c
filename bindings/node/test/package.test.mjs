/** What is published, installed into an empty project: it loads, its types fit, and the examples do what they say. */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const types = join(ROOT, "node_modules/@types");
  try {
    const args = [tsc, "-p", "examples", "--noEmit", "false", "--typeRoots", types];
    execFileSync(process.execPath, args, { cwd: project, encoding: "utf8" });
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
  assert.equal(Object.keys(manifest.optionalDependencies).length, 7);
});

for (const name of ["quickstart.mjs", "quickstart.cjs"]) {
  test(`${name} prints what was set`, async (t) => {
    const example = start(t, name, await serverOf(t));
    assert.equal(await example.line(), "hello");
    assert.equal(await example.line(), "{");
    assert.equal(await example.line(), "  is: 'set',");
    assert.deepEqual(await example.exited, [0, null]);
  });
}

test("http-cache.mjs serves what another instance was told", async (t) => {
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
