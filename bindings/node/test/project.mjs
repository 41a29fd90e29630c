/** A project of a user: the packages that are published, installed into an empty folder. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "..");

/** Makes one; the caller removes it. The tarballs are in it too. */
export function newProject() {
  const project = mkdtempSync(join(tmpdir(), "statestore-project-"));
  const packages = pack(project);
  writeFileSync(join(project, "package.json"), JSON.stringify({ private: true }));
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", ...packages], { cwd: project });
  return project;
}

/** Packs into a folder; the paths of the tarballs. */
export function pack(folder, ...options) {
  const packed = execFileSync(process.execPath, [join(ROOT, "scripts/pack.mjs"), folder, ...options], { encoding: "utf8" });
  return packed.trim().split("\n");
}
