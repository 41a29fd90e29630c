/** The declarations and the module have the same names; that the classes are as declared, the compiler checks. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

const require = createRequire(import.meta.url);
const ROOT = join(import.meta.dirname, "..");

for (const [name, file] of [["statestore", "index.d.ts"], ["statestore/testing", "testing.d.ts"]]) {
  test(`${file} declares what ${name} exports`, async () => {
    const text = readFileSync(join(ROOT, file), "utf8");
    const declared = new Set([...text.matchAll(/^export (?:class|function|const) (\w+)/gm)].map(([, name]) => name));
    assert(declared.size > 0);
    assert.deepEqual(new Set(Object.keys(require(name))), declared);
    assert.deepEqual(new Set(Object.keys(await import(name))), declared);
  });
}
