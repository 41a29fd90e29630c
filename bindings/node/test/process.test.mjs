/** How a process with clients lives and ends. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createConnection } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { run, start } from "./child.mjs";
import { BINARY, clientOf, serverOf } from "./system.mjs";

const ended = { exit: 0, complained: "" };

test("an open client keeps the process alive", async (t) => {
  const server = await serverOf(t);
  const child = start(t, server, `
    const client = await connect(url);
    await client.observe("key", ({ value }) => {
      console.log(String(value));
      if (String(value) === "end") client.close();
    }, { overflow: "all" });
    console.log("ready");
  `);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  assert.equal((await lines.next()).value, "ready");
  // Nothing but the client is there to keep it, and it hears of what others do, however late.
  const other = await clientOf(t, server);
  await other.set("key", "one");
  assert.equal((await lines.next()).value, "one");
  await other.set("key", "end");
  assert.equal((await lines.next()).value, "end");
  // It was closed, and nothing keeps it any more.
  assert.deepEqual(await child.exited, [0, null]);
});

test("unref lets the process exit, with calls under way too, and ref keeps it alive", async (t) => {
  const server = await serverOf(t);
  const code = `
    const client = await connect(url);
    const observer = await client.observe("key");
    client.unref();
    const next = observer.next().then(() => console.log("told"));
  `;
  assert.deepEqual(await run(t, server, code), { ...ended, printed: "" });
  assert.deepEqual(await run(t, server, `${code}
    client.ref();
    await client.set("key", "value");
    await next;
    await client.close();
  `), { ...ended, printed: "told" });
});

test("a process ends in the middle of its calls", async (t) => {
  const server = await serverOf(t);
  const code = `
    const client = await connect(url);
    await client.observe("key", () => {}, { overflow: "all" });
    for (let i = 0; i < 1000; i += 1) client.set("key", String(i)).catch(() => {});
    client.lock("door").then((guard) => guard.signal);
  `;
  for (const end of ["process.exit(3);", "setImmediate(() => process.exit(3));", "await client.get('key'); process.exit(3);"]) {
    const { exit, complained } = await run(t, server, code + end);
    assert.deepEqual([exit, complained], [3, ""], end);
  }
});

test("an exception of a callback is uncaught, and the observer continues", async (t) => {
  const server = await serverOf(t);
  const { exit, printed } = await run(t, server, `
    process.on("uncaughtException", (error) => console.log("uncaught", error.message));
    process.on("unhandledRejection", (error) => console.log("unhandled", error.message));
    const client = await connect(url);
    let calls = 0;
    await client.observe("key", ({ value }) => {
      calls += 1;
      if (calls === 3) setImmediate(() => client.close());
      if (calls === 2) return Promise.reject(new Error(value));
      throw new Error(value);
    }, { overflow: "all" });
    client.on("state", (state) => { throw new Error(state.is); });
    for (const value of ["one", "two", "three"]) await client.set("key", value);
  `);
  assert.equal(exit, 0);
  assert.deepEqual(printed.split("\n").sort(), ["uncaught closed", "uncaught one", "uncaught three", "unhandled two"]);
  const without = await run(t, server, `
    const client = await connect(url);
    await client.observe("key", ({ value }) => { throw new Error("about " + value); });
    await client.set("key", "one");
  `);
  assert.equal(without.exit, 1, "without a handler the process ends, as with any other listener");
  assert.match(without.complained, /Error: about one/);
});

test("ESM and CommonJS share one module", async (t) => {
  const { printed } = await run(t, await serverOf(t), `
    import * as esm from "statestore";
    import { createRequire } from "node:module";
    const require = createRequire(process.cwd() + "/");
    const cjs = require("statestore");
    const missing = Object.keys(cjs).filter((name) => cjs[name] !== esm[name]);
    console.log(Object.keys(cjs).length > 30, missing.length, require("statestore/testing").startServer !== undefined);
  `);
  assert.equal(printed, "true 0 true");
});

test("log records are passed to a function, without keys or values", async (t) => {
  const server = await serverOf(t);
  const child = start(t, server, `
    import { logTo } from "statestore";
    const client = await connect(url);
    await client.set("secret-key", "secret-value");
    logTo("INFO", (record) => {
      logTo(null);
      console.log(JSON.stringify(record));
      client.close();
    });
    console.log("ready");
  `);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  assert.equal((await lines.next()).value, "ready");
  await server.kill();
  const { level, target, message } = JSON.parse((await lines.next()).value);
  assert.deepEqual([level, target.split("::")[0]], ["WARN", "statestore"]);
  assert.match(message, /connection .* lost/);
  assert.doesNotMatch(message, /secret/);
  assert.deepEqual(await child.exited, [0, null]);
});

test("a server for tests ends with its process, however that ends", async () => {
  const ends = {
    SIGKILL: 'process.kill(process.pid, "SIGKILL"); setInterval(() => {}, 1000);',
    SIGTERM: 'process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000);',
    abort: "process.abort();",
    exit: "process.exit(0);",
    exception: 'throw new Error("uncaught");',
  };
  for (const [name, end] of Object.entries(ends)) {
    const child = program(`
      const servers = await Promise.all([startServer(), startServer()]);
      console.log(servers.map(({ port }) => port).join(" "));
      await once(process.stdin, "data");
      ${end}
    `);
    const connections = await connectionsTo(child);
    assert.equal(connections.length, 2, name);
    child.stdin.write("end\n");
    await Promise.all(connections.map(closed));

    await child.exited;
  }
});

test("a server for tests ends with the worker that started it", async () => {
  const child = program(`
    const code = \`
      import { parentPort } from "node:worker_threads";
      import { startServer } from "statestore/testing";
      parentPort.postMessage((await startServer()).port);
    \`;
    const worker = new Worker(code, { eval: true });
    const [port] = await once(worker, "message");
    console.log(port);
    const ended = once(process.stdin, "end");
    await once(process.stdin, "data");
    await worker.terminate();
    process.stdin.resume();
    await ended;
  `);
  const [connection] = await connectionsTo(child);
  child.stdin.write("end\n");
  await closed(connection);
  child.stdin.end();
  assert.deepEqual(await child.exited, [0, null]);
});

/** Starts a program that uses the server for tests. */
function program(code) {
  const prelude = `
    import { once } from "node:events";
    import { Worker } from "node:worker_threads";
    import { startServer } from "statestore/testing";
  `;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", prelude + code], {
    cwd: join(import.meta.dirname, ".."),
    env: { ...process.env, STATESTORED: BINARY },
    stdio: ["pipe", "pipe", "ignore"],
  });
  return Object.assign(child, { exited: once(child, "exit") });
}

/** Waits until the server has closed a connection, in order or by a reset. */
function closed(connection) {
  return new Promise((resolve) => (connection.closed ? resolve() : connection.once("close", resolve)));
}

/** Connections to the servers whose ports a program prints. */
async function connectionsTo(child) {
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  return await Promise.all(
    line.split(" ").map(async (port) => {
      const connection = createConnection({ port: Number(port), host: "127.0.0.1" });
      connection.on("error", () => {});
      await once(connection, "connect");
      return connection.resume();
    }),
  );
}
