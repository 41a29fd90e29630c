/** The scenarios that every language plays. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Player } from "./player.mjs";
import { serverOf } from "./system.mjs";

const FOLDER = join(import.meta.dirname, "../../../tests/scenarios");
const files = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

assert(files.length > 0, "there are scenarios");
for (const file of files) {
  const { scenarios } = JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
  for (const scenario of scenarios) {
    test(`${file}: ${scenario.name}`, { timeout: 60_000 }, async (t) => {
      const server = await serverOf(t);
      const player = new Player(server.url);
      t.after(() => player.end());
      for (const [index, step] of scenario.steps.entries()) {
        await player.play(step).catch((cause) => {
          throw new Error(`step ${index + 1}, ${JSON.stringify(step)}: ${cause.message}`, { cause });
        });
      }
    });
  }
}
