/**
 * Makes the packages that are published: `statestore`, and that of this platform with the native half in it.
 *
 *     node scripts/pack.mjs FOLDER [ADDON]
 *
 * FOLDER gets the tarballs; ADDON is statestore.node unless given. Their names are printed, one per line. The packages of
 * other platforms are made the same way on those platforms; platforms.json lists them all.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = join(import.meta.dirname, "..");
const readJson = (name) => JSON.parse(readFileSync(join(ROOT, name), "utf8"));
const writeJson = (path, value) => writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);

const platforms = readJson("platforms.json");
const { scripts: _scripts, devDependencies: _devDependencies, ...manifest } = readJson("package.json");
const packageOf = ({ name }) => `@statestore/${name}`;

function thisPlatform() {
  const { platform } = createRequire(import.meta.url)("../dist/platform.js");
  const found = platforms.find(({ name }) => name === platform());
  if (found === undefined) {
    throw new Error(`platforms.json has no ${platform()}`);
  }
  return found;
}

/** What every package has. */
const LICENSES = ["LICENSE", "LICENSE-MIT", "LICENSE-APACHE"];

function stage(folder) {
  mkdirSync(folder, { recursive: true });
  for (const name of LICENSES) {
    cpSync(join(ROOT, "../..", name), join(folder, name));
  }
}

function stageMain(folder) {
  stage(folder);
  for (const name of [...manifest.files, "README.md"]) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  // Written down here only: in a checkout npm would look for packages that are not published yet.
  const optionalDependencies = Object.fromEntries(platforms.map((it) => [packageOf(it), manifest.version]));
  writeJson(join(folder, "package.json"), { ...manifest, files: [...manifest.files, ...LICENSES], optionalDependencies });
}

function stagePlatform(folder, platform, addon) {
  stage(folder);
  cpSync(addon, join(folder, "statestore.node"));
  const { version, license, repository, engines } = manifest;
  writeJson(join(folder, "package.json"), {
    name: packageOf(platform),
    version,
    description: `The native half of statestore for ${platform.name}`,
    license,
    repository,
    engines,
    os: [platform.os],
    cpu: [platform.cpu],
    ...(platform.libc === undefined ? {} : { libc: [platform.libc] }),
    main: "statestore.node",
    files: ["statestore.node", ...LICENSES],
  });
}

function pack(folder, destination) {
  const npm = spawnSync("npm", ["pack", "--silent", "--pack-destination", destination], { cwd: folder, encoding: "utf8" });
  if (npm.status !== 0) {
    throw new Error(`npm pack failed: ${npm.stderr}`);
  }
  return join(destination, npm.stdout.trim());
}

const [destination, addon = join(ROOT, "statestore.node")] = process.argv.slice(2);
if (destination === undefined) {
  console.error("Usage: node scripts/pack.mjs FOLDER [ADDON]");
  process.exit(2);
}
mkdirSync(destination, { recursive: true });
const staging = mkdtempSync(join(tmpdir(), "statestore-pack-"));
try {
  stageMain(join(staging, "main"));
  stagePlatform(join(staging, "platform"), thisPlatform(), resolve(addon));
  console.log(pack(join(staging, "main"), resolve(destination)));
  console.log(pack(join(staging, "platform"), resolve(destination)));
} finally {
  rmSync(staging, { recursive: true });
}
