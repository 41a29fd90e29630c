/** Where errors say that they come from. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { connect } from "statestore";
import { startServer } from "statestore/testing";
import { run } from "./child.mjs";
import { BINARY, clientOf, serverOf } from "./system.mjs";

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

test("the stack of an error names the caller", async (t) => {
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

test("with callStacks, the stack names the line of a call that is not awaited", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { callStacks: true });
  const text = await clientOf(t, server, { encoding: "utf8", callStacks: true });
  await client.set("bytes", Buffer.from([0xff]));
  const guard = await client.lock("door");
  await guard.set("guarded", "value");
  const calls = {
    refused: () => client.set("guarded", "other"),
    invalid: () => client.get(""),
    "timed out": () => client.get("key", { timeout: 0 }),
    "of several": () => client.setMany([["a", "1"], ["", "2"]]),
    "not text": () => text.get("bytes"),
    "wrong type": () => client.get(7),
    cancelled: () => client.get("key", { signal: AbortSignal.abort() }),
    update: () => client.update("guarded", () => 5),
    scan: () => client.scan("*", { timeout: 0 }).next(),
    campaign: () => client.election("chief").campaign(5),
  };
  for (const [name, call] of Object.entries(calls)) {
    const error = await new Promise((resolve, reject) => {
      function theCaller() {
        call().then(reject, resolve);
      }
      theCaller();
    });
    assert.match(error.stack, / at theCaller /, `${name}: ${error.stack}`);
    assert(error.stack.startsWith(`${error.name}: ${error.message}`), error.stack);
  }
  const { complained } = await run(t, server, `
    const client = await connect(url, { callStacks: true });
    function forgotten() {
      void client.get("");
    }
    forgotten();
  `);
  assert.match(complained, / at forgotten /);
});

test("an error about text names the key, and the place among several", async (t) => {
  const server = await serverOf(t);
  const [bytes, text] = [await clientOf(t, server), await clientOf(t, server, { encoding: "utf8" })];
  await bytes.setMany([["fine", "text"], ["room/7", Buffer.from([0xff])], [Buffer.from([0xfe]), "text"]]);
  const observer = await text.observe("room/7");
  await bytes.set("room/7", Buffer.from([0xfd]));
  const matching = await text.observeMatching("room/*");
  const calls = [
    [() => text.get("room/7"), /^the value of "room\/7" is not UTF-8/],
    [() => text.get("room/7", { remaining: true }), /^the value of "room\/7" is not UTF-8/],
    [() => text.getMany(["fine", "room/7"]), /^the value of keys\[1\], "room\/7", is not UTF-8/],
    [() => text.getMany(["fine", "room/7"], { remaining: true }), /^the value of keys\[1\], "room\/7", is not UTF-8/],
    [() => text.update("room/7", () => "new"), /^the value of "room\/7" is not UTF-8/],
    [() => observer.next(), /^the value of "room\/7" is not UTF-8/],
    [() => consume(text.scan("*")), /^a key that matches "\*" is not UTF-8/],
    [() => matching.next(), /^the value of "room\/7" is not UTF-8/],
    [() => consume(text.scanEntries("room/*")), /^the value of "room\/7" is not UTF-8/],
    [() => consume(text.scanEntries("[!fr]*")), /^a key that matches "\[!fr\]\*" is not UTF-8/],
  ];
  for (const [call, message] of calls) {
    await assert.rejects(call(), (error) => {
      assert(error instanceof TypeError, error);
      assert.match(error.message, message);
      assert(Buffer.isBuffer(error.bytes));
      return true;
    });
  }
});

async function consume(keys) {
  for await (const _ of keys) {
    // Every key is read.
  }
}

test("a server that does not start reports why", async (t) => {
  await assert.rejects(startServer({ binary: "/no/such/statestored" }), (error) => {
    assert.match(error.message, /^\/no\/such\/statestored does not start: spawn .* ENOENT; set STATESTORED/);
    assert.equal(error.cause.code, "ENOENT");
    return true;
  });
  await assert.rejects(startServer({ binary: "/bin/false" }), { message: "/bin/false does not start: it ended with code 1" });
  await assert.rejects(startServer({ binary: process.execPath, args: ["--no-such-option"] }), /does not start: .*bad option/);
  const { port } = await serverOf(t);
  await assert.rejects(startServer({ binary: BINARY, port }), (error) => {
    assert.match(error.message, new RegExp(`does not start: .*${port}.* in use`));
    return true;
  });
});

test("a refused connection has the code of the system, and a time-out without a connection has its cause", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { reconnectDelayMin: 1, reconnectDelayMax: 10 });
  await server.kill();
  for (const host of ["127.0.0.1", "localhost"]) {
    await assert.rejects(connect(`mqtt://${host}:${server.port}`), (error) => {
      assert.deepEqual([error.code, error.cause.code, error.cause.errno], ["Unreachable", "ECONNREFUSED", -constants.errno.ECONNREFUSED]);
      return true;
    });
  }
  while (client.state().is !== "reconnecting" || client.state().reason.cause?.code !== "ECONNREFUSED") {
    await new Promise(setImmediate);
  }
  await assert.rejects(client.get("key", { timeout: 50 }), (error) => {
    assert.equal(error.code, "TimedOut");
    assert.match(error.cause.message, /^connecting to 127\.0\.0\.1/);
    assert.equal(error.cause.code, "ECONNREFUSED");
    return true;
  });
});
