/** The configuration node: one connection, its credentials, and its outages. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { proxyOf } from "./proxy.mjs";
import { NodeRed, answer, clientOf, configOf, entry, freePort, serverOf } from "./system.mjs";

const get = { id: "get", type: "statestore-get", server: "server", key: "topic", keyType: "msg", format: "text", wires: [["answer"]] };

function folderOf(t) {
  const folder = mkdtempSync(join(tmpdir(), "node-red-test-"));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

test("an outage shows in the status, and the flow continues after it", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const client = await clientOf(t, server);
  await client.set("key", "value");
  const red = await NodeRed.start(t);
  await red.deploy([configOf(proxy), ...answer(), ...entry("get", "get"), get]);
  await red.statuses.next(({ node, text }) => node === "get" && text === "connected");
  proxy.cut();
  await red.statuses.next(({ node, text }) => node === "get" && text.startsWith("disconnected: "));
  // The message waits for the end of the outage.
  const waiting = red.send("get", { topic: "key" });
  proxy.restore();
  assert.equal((await waiting).payload, "value");
  await red.statuses.next(({ node, text }) => node === "get" && text === "connected");
});

test("flows start without a store, time out, and work when it comes", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  proxy.cut();
  const red = await NodeRed.start(t);
  await red.deploy([configOf(proxy, { timeout: "0.2" }), ...answer(), ...entry("get", "get"), get]);
  await red.statuses.next(({ node, text }) => node === "get" && text.startsWith("disconnected: "));
  const { error } = await red.send("get", { topic: "key" });
  assert.equal(error.code, "TimedOut");
  assert.match(error.message, /there is no connection to the store/);
  proxy.restore();
  await red.statuses.next(({ node, text }) => node === "get" && text === "connected");
  assert.equal((await red.send("get", { topic: "key" })).exists, false);
});

test("settings that cannot work end the connection with an error", async (t) => {
  const red = await NodeRed.start(t);
  const logged = red.lines.next((line) => line.includes("the connection to the store has ended (InvalidSettings)"));
  await red.deploy([configOf({ url: "mqtt://" }), ...answer(), ...entry("get", "get"), get]);
  await logged;
  assert.equal((await red.send("get", { topic: "key" })).error.code, "InvalidSettings");
});

test("all nodes of a server share one connection, also after a partial deployment", async (t) => {
  const server = await serverOf(t);
  const proxy = await proxyOf(t, server);
  const red = await NodeRed.start(t);
  const second = { ...get, id: "second" };
  const config = configOf(proxy, { clientId: "shared" });
  await red.deploy([config, ...answer(), ...entry("get", "get"), get, ...entry("second", "second"), second]);
  await red.send("get", { topic: "key" });
  await red.send("second", { topic: "key" });
  assert.equal(proxy.connections(), 1);
  await red.deploy([config, ...answer(), ...entry("get", "get"), get, ...entry("second", "second"), { ...second, format: "json" }], "nodes");
  assert.equal((await red.send("second", { topic: "key" })).exists, false);
  assert.equal(proxy.connections(), 1);
  await red.deploy([]);
  // With the client id of a connection that is closed, another one is not taken over.
  const client = await clientOf(t, server, { clientId: "shared" });
  assert.equal(await client.get("key"), null);
});

test("a connection whose client id another one takes stays closed, and shows it", async (t) => {
  const server = await serverOf(t);
  const red = await NodeRed.start(t);
  await red.deploy([configOf(server, { clientId: "gateway" }), ...answer(), ...entry("get", "get"), get]);
  await red.send("get", { topic: "key" });
  await clientOf(t, server, { clientId: "gateway" });
  await red.statuses.next(({ node, text }) => node === "get" && text === "closed: taken_over");
  assert.equal((await red.send("get", { topic: "key" })).error.code, "Closed");
});

test("user and password are credentials, and a wrong one shows", async (t) => {
  const folder = folderOf(t);
  const users = join(folder, "users");
  writeFileSync(users, "gateway:right\n", { mode: 0o600 });
  const server = await serverOf(t, { args: ["--users-file", users] });
  const red = await NodeRed.start(t);
  await red.deploy([configOf(server, { credentials: { user: "gateway", password: "wrong" } }), ...answer(), ...entry("get", "get"), get]);
  await red.statuses.next(({ node, text }) => node === "get" && text === "disconnected: NotAuthenticated");
  await red.deploy([configOf(server, { credentials: { user: "gateway", password: "right" } }), ...answer(), ...entry("get", "get"), get]);
  assert.equal((await red.send("get", { topic: "key" })).exists, false);
  const flows = await (await fetch(`${red.url}/flows`)).text();
  assert.doesNotMatch(flows, /right/);
});

test("TLS takes files and PEM texts", async (t) => {
  const folder = folderOf(t);
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  execFileSync("openssl", [
    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
    "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", cert,
  ], { stdio: "ignore" });
  const port = await freePort();
  await serverOf(t, { args: ["--listen", `tls://127.0.0.1:${port}`, "--tls-cert", cert, "--tls-key", key] });
  const red = await NodeRed.start(t);
  const url = `mqtts://localhost:${port}`;
  const flow = [...answer(), ...entry("get", "get"), get];
  await red.deploy([configOf({ url }, { tls: "none" }), ...flow]);
  await red.statuses.next(({ node, text }) => node === "get" && text === "disconnected: Untrusted");
  for (const tls of [{ tls: "files", caFile: cert }, { tls: "pem", credentials: { ca: readFileSync(cert, "utf8") } }]) {
    await red.deploy([configOf({ url }, tls), ...flow]);
    const answered = await red.send("get", { topic: "key" });
    assert.equal(answered.exists, false, `${tls.tls}: ${answered.error?.message}`);
  }
});
