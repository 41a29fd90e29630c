/** Where errors say that they come from. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { startServer } from "statestore/testing";
import { clientOf, serverOf } from "./system.mjs";

test("the stack of an error leads to the line of the call", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  // The line of the marker, one after the call.
  const marked = (error, marker) => {
    const lines = readFileSync(fileURLToPath(import.meta.url), "utf8").split("\n");
    const call = lines.findIndex((line) => line.endsWith(`// ${marker}`)) + 1;
    assert.match(error.stack, new RegExp(`errors\\.test\\.mjs:${call}:\\d+`), marker);
  };
  try {
    await client.get(""); // awaited
    assert.fail();
  } catch (error) {
    marked(error, "awaited");
  }
  try {
    await client.setMany([["a", "1"], ["", "2"]]); // of several
    assert.fail();
  } catch (error) {
    marked(error, "of several");
  }
  try {
    for await (const key of client.scan("*", { timeout: 0 })) { // iterated
      assert.fail(key);
    }
    assert.fail();
  } catch (error) {
    marked(error, "iterated");
  }
});

test("the stack of an error names who made the call", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  const guard = await client.lock("door");
  await guard.set("guarded", "value");
  const observer = await client.observe("key");
  const controller = new AbortController();
  const calls = {
    LockHeld: () => client.lock("door", { wait: 0 }),
    FencingTokenRequired: () => client.set("guarded", "other"),
    TimedOut: () => client.get("key", { timeout: 0 }),
    InvalidArgument: () => client.get(""),
    Cancelled: () => observer.next({ signal: controller.signal }),
    Closed: () => client.lock("door"),
  };
  async function whoMadeTheCall(call) {
    await call();
  }
  for (const [code, call] of Object.entries(calls)) {
    const made = whoMadeTheCall(call);
    setImmediate(() => {
      if (code === "Cancelled") {
        controller.abort();
      } else if (code === "Closed") {
        void client.close();
      }
    });
    await assert.rejects(made, (error) => {
      assert.equal(error.code, code, error);
      assert.match(error.stack, / at (async )?whoMadeTheCall /, code);
      return true;
    });
  }
});

test("a server that does not start says why", async () => {
  await assert.rejects(startServer({ binary: "/no/such/statestored" }), (error) => {
    assert.match(error.message, /^\/no\/such\/statestored does not start; set STATESTORED/);
    assert.equal(error.cause.code, "ENOENT");
    return true;
  });
  await assert.rejects(startServer({ binary: "/bin/false" }), { cause: new Error("it ended with code 1") });
  await assert.rejects(startServer({ binary: process.execPath, args: ["--no-such-option"] }), (error) => {
    assert.match(error.cause.message, /bad option/);
    return true;
  });
});
