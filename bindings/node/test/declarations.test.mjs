/** The declarations and the module have the same names; that the classes are as declared, the compiler checks. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

const require = createRequire(import.meta.url);
const ROOT = join(import.meta.dirname, "..");

for (const [name, ...files] of [["statestore", "index.d.ts", "errors.d.ts", "settings.d.ts"], ["statestore/opentelemetry", "opentelemetry.d.ts"], ["statestore/testing", "testing.d.ts"]]) {
  test(`${files} declares what ${name} exports`, async () => {
    const text = files.map((file) => readFileSync(join(ROOT, file), "utf8")).join("");
    const declared = new Set([...text.matchAll(/^export (?:class|function|const) (\w+)/gm)].map(([, name]) => name));
    assert(declared.size > 0);
    assert.deepEqual(new Set(Object.keys(require(name))), declared);
    assert.deepEqual(new Set(Object.keys(await import(name))), declared);
  });
}

test("each class of errors declares the code that it has", () => {
  const text = readFileSync(join(ROOT, "errors.d.ts"), "utf8");
  const declared = [...text.matchAll(/^export class (\w+) extends StateStoreError \{\n {2}readonly code: "(\w+)";\n\}/gm)];
  const statestore = require("statestore");
  const classes = Object.values(statestore).filter((made) => typeof made.code === "string");
  assert.deepEqual(declared.map(([, name, code]) => `${name} ${code}`).sort(), classes.map((made) => `${made.name} ${made.code}`).sort());
});
