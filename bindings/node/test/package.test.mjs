/** What is published, installed into an empty project: it loads, its types fit, and the programs print what they should. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { newProject, pack, ROOT } from "./project.mjs";
import { serverOf } from "./system.mjs";

let project;

before(() => {
  project = newProject();
  for (const folder of ["examples", "test/programs"]) {
    cpSync(join(ROOT, folder), join(project, folder), { recursive: true });
  }
  for (const name of ["@types", "undici-types"]) {
    symlinkSync(join(ROOT, "node_modules", name), join(project, "node_modules", name));
  }
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  try {
    execFileSync(process.execPath, [tsc, "-p", "test/programs", "--noEmit", "false"], { cwd: project, encoding: "utf8" });
  } catch (error) {
    throw new Error(`the programs do not compile:\n${error.stdout}`);
  }
});

after(() => rmSync(project, { recursive: true }));

/** Runs a program to its end: its exit code, and its output. */
function run(name, server) {
  const env = { ...process.env, STATESTORE_URL: server.url };
  return spawnSync(process.execPath, [join(project, "test/programs", name)], { encoding: "utf8", env, timeout: 60_000 });
}

test("nothing runs when it is installed", () => {
  const manifest = JSON.parse(readFileSync(join(project, "node_modules/statestore/package.json"), "utf8"));
  assert.equal(manifest.scripts, undefined);
  assert.equal(manifest.dependencies, undefined);
  assert.deepEqual(Object.keys(manifest.peerDependencies), Object.keys(manifest.peerDependenciesMeta));
});

/** The optional dependencies of a tarball, without their scope. */
function platformsOf(tarball) {
  const manifest = execFileSync("tar", ["--extract", "--to-stdout", "--file", tarball, "package/package.json"], { encoding: "utf8" });
  return Object.keys(JSON.parse(manifest).optionalDependencies).map((name) => name.replace("@statestore/", ""));
}

test("the packages depend on the platforms that a release has, and no others", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "statestore-release-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [here] = readdirSync(join(project, "node_modules/@statestore"));
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const [, main] = pack(folder);
  assert.deepEqual(platformsOf(main), [here]);

  // The other machines of a release made these.
  const others = JSON.parse(readFileSync(join(ROOT, "platforms.json"), "utf8")).map(({ name }) => name).filter((name) => name !== here);
  const name = others[0];
  for (const tarball of [`statestore-${name}-${version}.tgz`, `statestore-server-${name}-${version}.tgz`, `statestore-${others[1]}-0.0.1.tgz`]) {
    writeFileSync(join(folder, tarball), "");
  }
  const [again, server] = pack(folder, "--main");
  assert.equal(again, main);
  assert.deepEqual(platformsOf(again).sort(), [here, name].sort());
  assert.deepEqual(platformsOf(server), [`server-${name}`]);
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
    const child = spawnSync(program, [...options, join(project, "test/programs/tour.mjs")], {
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
    cpSync(join(ROOT, "test/programs/types.mts"), join(folder, "types.mts"));
    // As little as a user can have: no library but that of the language, and no types that the package does not ask for.
    const compilerOptions = { target: "ES2022", module: "Node16", moduleResolution: "Node16", types: [], strict: true, noEmit: true };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.mts"] }));
    const tsc = join(ROOT, "node_modules", compiler, "bin/tsc");
    const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
    assert.equal(status, 0, stdout);
  });
}

for (const name of ["quickstart.mjs", "quickstart.cjs"]) {
  test(`${name} prints the value and the change`, async (t) => {
    const { status, stdout, stderr } = run(name, await serverOf(t));
    assert.equal(status, 0, stderr);
    assert.deepEqual(stdout.split("\n").slice(0, 3), ["hello", "{", "  is: 'set',"]);
  });
}
