/** Where errors say that they come from. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer } from "statestore/testing";
import { clientOf, serverOf } from "./system.mjs";

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
