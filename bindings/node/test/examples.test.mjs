/** Each example prints the output that its comment describes, survives failures, and ends at Ctrl-C. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { clientOf, serverOf } from "./system.mjs";

const ROOT = join(import.meta.dirname, "..");
let project;

before(() => {
  project = mkdtempSync(join(tmpdir(), "statestore-examples-"));
  cpSync(join(ROOT, "examples"), project, { recursive: true });
  mkdirSync(join(project, "node_modules"));
  symlinkSync(ROOT, join(project, "node_modules/statestore"));
  for (const name of ["@types", "undici-types"]) {
    symlinkSync(join(ROOT, "node_modules", name), join(project, "node_modules", name));
  }
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const { status, stdout } = spawnSync(process.execPath, [tsc, "-p", project, "--noEmit", "false"], { encoding: "utf8" });
  assert.equal(status, 0, stdout);
});

after(() => rmSync(project, { recursive: true }));

async function* linesOf(stream) {
  let text = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const lines = (text + chunk).split("\n");
    text = lines.pop();
    yield* lines;
  }
}

/** Starts an example. */
function start(t, server, name, ...options) {
  const child = spawn(process.execPath, [join(project, `${name}.mjs`), ...options], {
    env: { ...process.env, STATESTORE_URL: server.url },
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.after(() => child.kill("SIGKILL"));
  const closed = once(child, "close");
  const [lines, complaints] = [child.stdout, child.stderr].map(linesOf);
  const rest = async (iterator) => {
    const left = [];
    for await (const line of iterator) {
      left.push(line);
    }
    return left;
  };
  /** Waits for the end of the example: its exit code, and the rest of its output. */
  const end = async () => {
    const [printed, complained] = await Promise.all([rest(lines), rest(complaints)]);
    const [code] = await closed;
    return { code, printed, complained };
  };
  return {
    child,
    end,
    line: async () => (await lines.next()).value,
    complaint: async () => (await complaints.next()).value,
    interrupt: () => {
      child.kill("SIGINT");
      return end();
    },
  };
}

const done = (...printed) => ({ code: 0, printed, complained: [] });

test("there are five examples", () => {
  const names = readdirSync(join(ROOT, "examples")).filter((name) => name.endsWith(".mts"));
  assert.deepEqual(names.sort(), ["active-standby.mts", "cache.mts", "line-settings.mts", "machine-lock.mts", "presence.mts"]);
});

test("the cache computes once", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const plates = Array.from({ length: 3 }, () => "press-1: Contoso 400");
  assert.deepEqual(await start(t, server, "cache").end(), done("reading the plate of press-1", ...plates));
  assert.deepEqual(await start(t, server, "cache").end(), done(...plates));
  const { expiresIn } = await client.get("cache/plate/press-1", { remaining: true });
  assert(expiresIn > 0 && expiresIn <= 60_000, String(expiresIn));
});

test("the cache computes what the store rejects", async (t) => {
  const machine = "x".repeat(70_000); // longer than a key can be
  const { code, printed, complained } = await start(t, await serverOf(t), "cache", machine).end();
  assert.equal(code, 0);
  assert.equal(printed.filter((line) => line === `${machine}: Contoso 400`).length, 3);
  assert.equal(complained.filter((line) => line.startsWith("the cache was not")).length, 6);
});

test("the settings of a line are followed", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  await client.set("line-1/settings/speed", "90");
  const line = start(t, server, "line-settings");
  assert.equal(await line.line(), "the line runs with pressure 5, speed 90");
  await client.set("line-1/settings/speed", "fast");
  assert.equal(await line.complaint(), 'line-1/settings/speed is "fast", which is no number');
  await client.set("line-1/settings/colour", "red");
  assert.deepEqual(await start(t, server, "line-settings", "pressure", "7").end(), done());
  assert.equal(await line.line(), "the line runs with pressure 7, speed 90");
  await client.del("line-1/settings/speed");
  assert.equal(await line.line(), "the line runs with pressure 7, speed 60");
  assert.deepEqual(await line.interrupt(), done());
});

test("one program moves the machine at a time", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const first = start(t, server, "machine-lock", "1000000");
  assert.equal(await first.line(), "waiting for the press");
  const [stroke, token] = (await first.line()).split(" with the token ");
  assert.equal(stroke, "stroke 1");
  const [second, third] = [start(t, server, "machine-lock", "1"), start(t, server, "machine-lock")];
  assert.deepEqual([await second.line(), await third.line()], ["waiting for the press", "waiting for the press"]);
  assert.deepEqual(await third.interrupt(), done());
  assert.equal(await first.line(), `stroke 2 with the token ${token}`);
  const interrupted = await first.interrupt();
  assert.deepEqual({ ...interrupted, printed: interrupted.printed.slice(-1) }, done("the press stands still"));
  const { printed, ...rest } = await second.end();
  assert.deepEqual(rest, { code: 0, complained: [] });
  assert(printed[0].startsWith("stroke 1 with the token ") && printed[0] > `stroke 1 with the token ${token}`, printed[0]);
  assert.deepEqual(printed.slice(1), ["the press stands still"]);
  assert.equal(String((await client.get("press-1/strokes")).value), "1");
});

test("a lost lock stops the machine", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const example = start(t, server, "machine-lock", "1000000");
  assert.equal(await example.line(), "waiting for the press");
  assert.match(await example.line(), /^stroke 1 /);
  await client.set("press-1/owner", "other");
  const { code, printed, complained } = await example.end();
  assert.equal(code, 1);
  assert.equal(printed.at(-1), "the press stands still");
  assert.match(complained[0], /^LockLost: /);
});

test("a standby takes over", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { encoding: "utf8" });
  const first = start(t, server, "active-standby", "gateway-a");
  assert.deepEqual([await first.line(), await first.line()], ["gateway-a stands by", "gateway-a is active"]);
  const [second, third] = [start(t, server, "active-standby", "gateway-b", "2"), start(t, server, "active-standby", "gateway-c")];
  assert.deepEqual([await second.line(), await third.line()], ["gateway-b stands by", "gateway-c stands by"]);
  assert.deepEqual(await third.interrupt(), done());
  assert.equal((await client.election("line-1/active").leader()).value, "gateway-a");
  assert.deepEqual(await first.interrupt(), done());
  assert.deepEqual(await second.end(), done("gateway-b is active"));
  assert.equal((await client.get("line-1/plan")).value, "round 1 of gateway-b");
});

test("a lost lead makes a standby", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server);
  const example = start(t, server, "active-standby", "gateway-a");
  assert.deepEqual([await example.line(), await example.line()], ["gateway-a stands by", "gateway-a is active"]);
  await client.set("line-1/active", "other");
  assert.match(await example.complaint(), /^gateway-a is not active: /);
  assert.equal(await example.line(), "gateway-a stands by");
  await client.del("line-1/active");
  assert.equal(await example.line(), "gateway-a is active");
  assert.deepEqual(await example.interrupt(), done());
});

test("gateways are present while they run", async (t) => {
  const server = await serverOf(t);
  const early = start(t, server, "presence");
  assert.equal(await early.line(), "gateways present: 0");
  const first = start(t, server, "presence", "gateway-a");
  const one = `gateway-a is present: process ${first.child.pid}`;
  assert.equal(await early.line(), one);
  const second = start(t, server, "presence", "gateway-b");
  const two = `gateway-b is present: process ${second.child.pid}`;
  assert.equal(await early.line(), two);
  const late = start(t, server, "presence");
  assert.deepEqual([await late.line(), await late.line(), await late.line()], [one, two, "gateways present: 2"]);
  // Renewals print nothing.
  for (let round = 0; round < 3; round += 1) {
    assert.equal(await first.line(), "gateway-a is announced");
  }
  // The key of a gateway that ends disappears at once; that of a gateway that dies expires.
  assert.equal((await first.interrupt()).code, 0);
  second.child.kill("SIGKILL");
  for (const watcher of [early, late]) {
    assert.deepEqual([await watcher.line(), await watcher.line()], ["gateway-a is gone", "gateway-b is gone"]);
    assert.deepEqual(await watcher.interrupt(), done());
  }
});

test("a gateway survives a frozen server", async (t) => {
  const server = await serverOf(t);
  const example = start(t, server, "presence", "gateway-a");
  assert.equal(await example.line(), "gateway-a is announced");
  process.kill(server.pid, "SIGSTOP");
  assert.match(await example.complaint(), /^gateway-a was not announced: /);
  process.kill(server.pid, "SIGCONT");
  assert.equal(await example.line(), "gateway-a is announced");
  assert.equal((await example.interrupt()).code, 0);
});
