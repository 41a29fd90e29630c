/**
 * Makes the packages that are published: `statestore`, and that of this platform with the native half in it.
 *
 *     node scripts/pack.mjs FOLDER [ADDON] [--server STATESTORED] [--materials MATERIALS]
 *     node scripts/pack.mjs FOLDER --main
 *
 * FOLDER gets the tarballs; ADDON is statestore.node unless given. With a program STATESTORED also `@statestore/server`, and that of
 * this platform with the program in it. MATERIALS has a folder of notices and bills of materials for each of the two, called `addon` and
 * `server`. The names of the tarballs are printed, one per line. The packages of other platforms are made the same way on those
 * platforms; platforms.json lists them all.
 *
 * `statestore` and `@statestore/server` depend on the packages of the platforms whose tarballs are in FOLDER, and on no others: some package
 * managers fail if an optional dependency was never published. So a release collects the tarballs of all platforms in one folder, and makes
 * these two again with --main.
 */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

const ROOT = join(import.meta.dirname, "..");
const readJson = (name) => JSON.parse(readFileSync(join(ROOT, name), "utf8"));
const writeJson = (path, value) => writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);

const platforms = readJson("platforms.json");
const { scripts: _scripts, devDependencies: _devDependencies, ...manifest } = readJson("package.json");
const addonOf = ({ name }) => `@statestore/${name}`;
const serverOf = ({ name }) => `@statestore/server-${name}`;

function thisPlatform() {
  const { platform } = createRequire(import.meta.url)("../dist/platform.js");
  const found = platforms.find(({ name }) => name === platform());
  if (found === undefined) {
    throw new Error(`platforms.json has no ${platform()}`);
  }
  return found;
}

/** What every package says of where it comes from. */
const { version, license, repository, homepage, bugs, publishConfig, engines } = manifest;
const ORIGIN = { version, license, repository, homepage, bugs, publishConfig, engines };

/** The packages of platforms whose tarballs are in the folder, with the version: all that is published. */
function published(nameOf) {
  const tarball = (name) => `${name.replace("@", "").replace("/", "-")}-${version}.tgz`;
  const names = platforms.map(nameOf).filter((name) => existsSync(join(destination, tarball(name))));
  return Object.fromEntries(names.map((name) => [name, version]));
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
  const optionalDependencies = published(addonOf);
  writeJson(join(folder, "package.json"), { ...manifest, files: [...manifest.files, ...LICENSES], optionalDependencies });
}

function stageServer(folder) {
  stage(folder);
  const files = ["index.js", "index.d.ts"];
  for (const name of [...files, "README.md"]) {
    cpSync(join(ROOT, "server", name), join(folder, name));
  }
  cpSync(join(ROOT, "dist/platform.js"), join(folder, "platform.js"));
  writeJson(join(folder, "package.json"), {
    name: "@statestore/server",
    description: "The program statestored for tests: a state store and MQTT 5 listener in one process",
    keywords: ["state-store", "mqtt", "server", "testing"],
    ...ORIGIN,
    type: "commonjs",
    main: "./index.js",
    types: "./index.d.ts",
    files: [...files, "platform.js", ...LICENSES],
    optionalDependencies: published(serverOf),
  });
}

/** A package with something compiled in it: `file`, as `name` with these `permissions`. */
function stagePlatform(folder, platform, { name, description, file, as, permissions, materials }) {
  stage(folder);
  cpSync(file, join(folder, as));
  chmodSync(join(folder, as), permissions);
  const texts = materials === undefined ? [] : readdirSync(materials);
  for (const text of texts) {
    cpSync(join(materials, text), join(folder, text));
  }
  writeFileSync(join(folder, "README.md"), `# ${name}\n\n${description}. It is installed with the package that needs it.\n`);
  writeJson(join(folder, "package.json"), {
    name,
    description,
    ...ORIGIN,
    os: [platform.os],
    cpu: [platform.cpu],
    ...(platform.libc === undefined ? {} : { libc: [platform.libc] }),
    main: as,
    files: [as, ...texts, ...LICENSES],
  });
}

function pack(folder, destination) {
  // On Windows npm is a batch file, which only a shell runs.
  const shell = process.platform === "win32";
  const target = shell ? `"${destination}"` : destination;
  const npm = spawnSync("npm", ["pack", "--silent", "--pack-destination", target], { cwd: folder, encoding: "utf8", shell });
  if (npm.status !== 0) {
    throw new Error(`npm pack failed: ${npm.stderr}`);
  }
  return join(destination, npm.stdout.trim());
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { server: { type: "string" }, materials: { type: "string" }, main: { type: "boolean" } },
});
const [destination, addon = join(ROOT, "statestore.node")] = positionals;
if (destination === undefined) {
  console.error("Usage: node scripts/pack.mjs FOLDER [ADDON] [--server STATESTORED] [--materials MATERIALS] | FOLDER --main");
  process.exit(2);
}
const materialsOf = (name) => (values.materials === undefined ? undefined : resolve(values.materials, name));
mkdirSync(destination, { recursive: true });
const staging = mkdtempSync(join(tmpdir(), "statestore-pack-"));
const packed = (name) => console.log(pack(join(staging, name), resolve(destination)));

function packPlatform() {
  const platform = thisPlatform();
  stagePlatform(join(staging, "platform"), platform, {
    name: addonOf(platform),
    description: `The native half of statestore for ${platform.name}`,
    file: resolve(addon),
    as: "statestore.node",
    permissions: 0o644,
    materials: materialsOf("addon"),
  });
  packed("platform");
  if (values.server !== undefined) {
    stagePlatform(join(staging, "server-platform"), platform, {
      name: serverOf(platform),
      description: `The program statestored for ${platform.name}`,
      file: resolve(values.server),
      as: "statestored",
      permissions: 0o755,
      materials: materialsOf("server"),
    });
    packed("server-platform");
  }
}

try {
  if (values.main !== true) {
    packPlatform();
  }
  stageMain(join(staging, "main"));
  packed("main");
  if (Object.keys(published(serverOf)).length > 0) {
    stageServer(join(staging, "server"));
    packed("server");
  }
} finally {
  rmSync(staging, { recursive: true });
}
