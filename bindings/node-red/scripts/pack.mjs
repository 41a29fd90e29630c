/**
 * Makes the package that is published, with its dependency on `statestore`: `node scripts/pack.mjs FOLDER`. Prints the name of the tarball.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = join(import.meta.dirname, "..");
const LICENSES = ["LICENSE", "LICENSE-MIT", "LICENSE-APACHE"];

const [folder] = process.argv.slice(2);
if (folder === undefined) {
  console.error("Usage: node scripts/pack.mjs FOLDER");
  process.exit(2);
}
const destination = resolve(folder);
mkdirSync(destination, { recursive: true });
const readJson = (name) => JSON.parse(readFileSync(join(ROOT, name), "utf8"));
const { scripts: _scripts, devDependencies: _devDependencies, ...manifest } = readJson("package.json");
const staging = mkdtempSync(join(tmpdir(), "statestore-pack-"));
try {
  for (const name of [...manifest.files, "README.md"]) {
    cpSync(join(ROOT, name), join(staging, name), { recursive: true });
  }
  for (const name of LICENSES) {
    cpSync(join(ROOT, "../..", name), join(staging, name));
  }
  // In a checkout npm would look for a package that is not published yet.
  const { version } = readJson("../node/package.json");
  const published = { ...manifest, version, files: [...manifest.files, ...LICENSES], dependencies: { statestore: version } };
  writeFileSync(join(staging, "package.json"), `${JSON.stringify(published, null, 2)}\n`);
  // On Windows npm is a batch file, which only a shell runs.
  const shell = process.platform === "win32";
  const target = shell ? `"${destination}"` : destination;
  const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", target], { cwd: staging, encoding: "utf8", shell });
  console.log(join(destination, packed.trim()));
} finally {
  rmSync(staging, { recursive: true });
}
