/** Programs that were bundled run without node_modules, and so does a single executable. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { newProject, ROOT } from "./project.mjs";
import { serverOf } from "./system.mjs";

const require = createRequire(import.meta.url);
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";
let project;
let entry;
let addon;

before(() => {
  project = newProject();
  entry = join(project, "app.cjs");
  copyFileSync(join(ROOT, "test/programs/quickstart.cjs"), entry);
  const [name] = readdirSync(join(project, "node_modules/@statestore"));
  addon = join(project, "node_modules/@statestore", name, "statestore.node");
});

after(() => rmSync(project, { recursive: true }));

/** A folder without node_modules above it. */
function emptyFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), "statestore-bundle-"));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

function run(program, args, url, env = {}) {
  const { STATESTORE_ADDON: _, ...inherited } = process.env;
  return spawnSync(program, args, { encoding: "utf8", env: { ...inherited, ...env, STATESTORE_URL: url }, timeout: 60_000 });
}

function assertHello({ status, stdout, stderr }) {
  assert.equal(status, 0, stderr);
  assert.deepEqual(stdout.split("\n").slice(0, 3), ["hello", "{", "  is: 'set',"]);
}

async function bundle(folder, options) {
  const outfile = join(folder, options.format === "esm" ? "app.mjs" : "app.js");
  const { warnings } = await build({ entryPoints: [entry], bundle: true, platform: "node", outfile, logLevel: "silent", ...options });
  assert.deepEqual(warnings, []);
  return outfile;
}

test("the loader names each package of platforms.json as a literal", () => {
  const loader = readFileSync(join(ROOT, "face/platform.ts"), "utf8");
  const literals = [...loader.matchAll(/case "([\w-]+)":\n\s+return require\("@statestore\/\1"\);/g)].map(([, name]) => name);
  const platforms = JSON.parse(readFileSync(join(ROOT, "platforms.json"), "utf8")).map(({ name }) => name);
  assert.deepEqual(literals, platforms);
});

test("esbuild copies the native half beside the bundle", async (t) => {
  const folder = emptyFolder(t);
  const bundled = await bundle(folder, { loader: { ".node": "copy" } });
  assert.equal(readdirSync(folder).filter((name) => name.endsWith(".node")).length, 1);
  assertHello(run(process.execPath, [bundled], (await serverOf(t)).url));
});

test("webpack copies the native half beside the bundle", async (t) => {
  const webpack = require("webpack");
  const folder = emptyFolder(t);
  const compiler = webpack({
    mode: "production",
    target: "node",
    context: project,
    entry,
    output: { path: folder, filename: "app.js" },
    node: { __dirname: false },
    module: { rules: [{ test: /\.node$/, loader: "node-loader" }] },
    resolveLoader: { modules: [join(ROOT, "node_modules")] },
  });
  const stats = await new Promise((resolve, reject) => compiler.run((error, stats) => (error ? reject(error) : resolve(stats))));
  await new Promise((resolve) => compiler.close(resolve));
  const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
  assert.deepEqual(errors, []);
  // The packages of other platforms; they are not installed.
  for (const { message } of warnings) {
    assert.match(message, /Can't resolve '@statestore\/[\w-]+'/);
  }
  assertHello(run(process.execPath, [join(folder, "app.js")], (await serverOf(t)).url));
});

test("a variable names the native half of a bundle without one", async (t) => {
  const bundled = await bundle(emptyFolder(t), { external: ["@statestore/*"] });
  const { url } = await serverOf(t);
  assertHello(run(process.execPath, [bundled], url, { STATESTORE_ADDON: addon }));

  const without = run(process.execPath, [bundled], url);
  assert.equal(without.status, 1);
  assert.match(without.stderr, /statestore has no native half here: .* add statestore\.node .* or set STATESTORE_ADDON to its path/);

  const wrong = run(process.execPath, [bundled], url, { STATESTORE_ADDON: "/no/such/file" });
  assert.equal(wrong.status, 1);
  assert.match(wrong.stderr, /statestore has no native half here: STATESTORE_ADDON is "\/no\/such\/file", which cannot be loaded/);
});

test("a bundle as an ES module needs a require", async (t) => {
  const folder = emptyFolder(t);
  const banner = { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' };
  const bundled = await bundle(folder, { loader: { ".node": "copy" }, format: "esm", banner });
  assertHello(run(process.execPath, [bundled], (await serverOf(t)).url));
});

/** Why this Node makes no single executables, if so. */
function noSingleExecutables() {
  try {
    require("node:sea");
  } catch {
    return "this Node has no assets in single executables";
  }
  return readFileSync(process.execPath).includes(FUSE) ? false : "this Node has no place for a program";
}

test("a single executable has the native half as an asset", { skip: noSingleExecutables() }, async (t) => {
  const folder = emptyFolder(t);
  const main = await bundle(folder, { external: ["@statestore/*"] });
  const [blob, config, executable] = ["app.blob", "sea.json", "app"].map((name) => join(folder, name));
  const assets = { "statestore.node": addon };
  writeFileSync(config, JSON.stringify({ main, output: blob, disableExperimentalSEAWarning: true, assets }));
  execFileSync(process.execPath, ["--experimental-sea-config", config], { stdio: "pipe" });
  copyFileSync(process.execPath, executable);
  chmodSync(executable, 0o755);
  const { inject } = require("postject");
  const machO = process.platform === "darwin" ? { machoSegmentName: "NODE_SEA" } : {};
  await inject(executable, "NODE_SEA_BLOB", readFileSync(blob), { sentinelFuse: FUSE, ...machO });
  if (process.platform === "darwin") {
    execFileSync("codesign", ["--sign", "-", "--force", executable]);
  }
  const temporary = join(folder, "temporary");
  mkdirSync(temporary);
  const { url } = await serverOf(t);
  assertHello(run(executable, [], url, { TMPDIR: temporary }));
  // The file that the system loaded it from is gone.
  assert.deepEqual(process.platform === "win32" ? [] : readdirSync(temporary), []);
});

test("bun compiles a program into one file", { skip: spawnSync("bun", ["--version"]).status === 0 ? false : "there is no bun" }, async (t) => {
  const executable = join(emptyFolder(t), "app");
  execFileSync("bun", ["build", "--compile", entry, "--outfile", executable], { cwd: project, stdio: "pipe" });
  assertHello(run(executable, [], (await serverOf(t)).url));
});
