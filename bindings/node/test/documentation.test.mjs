/** Every program and fragment of the guides has the types that it needs, and runs. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { BINARY, serverOf } from "./system.mjs";

const ROOT = join(import.meta.dirname, "..");
const list = execFileSync("python3", [join(ROOT, "../../docs/blocks.py"), "list", "node"], { encoding: "utf8" });
const BLOCKS = JSON.parse(list).map((block) => ({ ...block, file: block.name.replaceAll(/[^a-z0-9]+/g, "-") }));
let project;

/** A fragment needs what the page tells of before it. */
function program({ code }) {
  if (/\bclient = await connect\(/.test(code)) {
    return code.replace('"mqtt://127.0.0.1:1883"', "process.env.STATESTORE_URL!");
  }
  return `import { connect } from "statestore";
const client = await connect(process.env.STATESTORE_URL!);
{
${code}
}
await client.close();
`;
}

before(() => {
  project = mkdtempSync(join(tmpdir(), "statestore-guides-"));
  mkdirSync(join(project, "node_modules"));
  symlinkSync(ROOT, join(project, "node_modules/statestore"));
  for (const name of ["@types", "undici-types"]) {
    symlinkSync(join(ROOT, "node_modules", name), join(project, "node_modules", name));
  }
  for (const block of BLOCKS) {
    writeFileSync(join(project, `${block.file}.mts`), program(block));
  }
  const extended = join(ROOT, "examples/tsconfig.json");
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ extends: extended, compilerOptions: { noEmit: false }, include: ["*.mts"] }));
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", project], { encoding: "utf8" });
  assert.equal(status, 0, stdout);
});

after(() => rmSync(project, { recursive: true }));

test("there are programs in the guides", () => assert(BLOCKS.length > 0));

for (const { name, file } of BLOCKS) {
  test(name, async (t) => {
    const server = await serverOf(t);
    const { status, stderr } = spawnSync(process.execPath, [join(project, `${file}.mjs`)], {
      encoding: "utf8",
      env: { ...process.env, STATESTORED: BINARY, STATESTORE_URL: server.url },
      timeout: 60_000,
    });
    assert.equal(status, 0, stderr);
  });
}
