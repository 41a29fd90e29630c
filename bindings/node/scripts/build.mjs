/** Builds the native half with cargo, unless that is done, and puts it where the face finds it: `node scripts/build.mjs [--release] [--built]`. */
import { spawnSync } from "node:child_process";
import { copyFileSync, renameSync } from "node:fs";
import { join } from "node:path";

const LIBRARIES = { darwin: "libstatestore_node.dylib", win32: "statestore_node.dll" };
const ROOT = join(import.meta.dirname, "..");

const isRelease = process.argv.includes("--release");
const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, "..", "..", "target");
if (!process.argv.includes("--built")) {
  const cargo = spawnSync("cargo", ["build", "--locked", "--package", "statestore-node", ...(isRelease ? ["--release"] : [])], {
    cwd: ROOT,
    env: { ...process.env, CARGO_TARGET_DIR: target },
    stdio: "inherit",
  });
  if (cargo.status !== 0) {
    process.exit(1);
  }
}
const library = join(target, isRelease ? "release" : "debug", LIBRARIES[process.platform] ?? "libstatestore_node.so");
const addon = join(ROOT, "statestore.node");
// By a rename: a process that has loaded the one before keeps it.
copyFileSync(library, `${addon}.new`);
renameSync(`${addon}.new`, addon);
