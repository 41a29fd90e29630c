/** Clients that connect in the background, and TLS from memory. */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { connect, InvalidSettingsError, UnreachableError } from "statestore";
import { BINARY, serverOf } from "./system.mjs";

const SOON = { lazy: true, reconnectDelayMin: 10, reconnectDelayMax: 50 };

/** A network in front of a server that is away at first. */
async function gateOf(t, server) {
  const gate = { isOpen: false };
  const proxy = createServer((near) => {
    near.on("error", () => {});
    if (!gate.isOpen) {
      near.destroy();
      return;
    }
    const far = createConnection(server.port, "127.0.0.1");
    far.on("error", () => near.destroy());
    near.pipe(far).pipe(near);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => proxy.close());
  return Object.assign(gate, { url: `mqtt://127.0.0.1:${proxy.address().port}` });
}

async function reaches(client, is) {
  while (client.state().is !== is) {
    await once(client, "state");
  }
  return client.state();
}

test("a lazy client is there before its connection, and its calls wait", async (t) => {
  const gate = await gateOf(t, await serverOf(t));
  const client = await connect(gate.url, { ...SOON, clientId: "lazy" });
  t.after(() => client.close());
  assert.equal(client.clientId(), "lazy");
  assert(["connecting", "reconnecting"].includes(client.state().is), client.state().is);
  const setting = client.set("key", "value", { timeout: 30_000 });
  gate.isOpen = true;
  assert.equal((await setting).applied, true);
  await reaches(client, "connected");
});

test("a lazy client shows why it is not connected, and fails fast if asked to", async (t) => {
  const gate = await gateOf(t, await serverOf(t));
  const client = await connect(gate.url, { ...SOON, failFast: true });
  t.after(() => client.close());
  const { reason } = await reaches(client, "reconnecting");
  assert.equal(reason.code, "Unreachable", reason.message);
  await assert.rejects(client.get("key"), (error) => error instanceof UnreachableError && error.outcome === "not_done");
});

test("connectLimit ends a lazy client", async (t) => {
  const gate = await gateOf(t, await serverOf(t));
  const client = await connect(gate.url, { ...SOON, connectLimit: 100 });
  t.after(() => client.close());
  assert.equal((await reaches(client, "closed")).lostReason, "gave_up");
});

test("TLS takes certificates and keys from memory, as text or bytes", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "statestore-tls-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = (name) => join(folder, name);
  const openssl = (...args) => execFileSync("openssl", args, { cwd: folder, stdio: "pipe" });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl("req", "-x509", ...key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority");
  openssl("req", ...key, "-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=own");
  writeFileSync(path("own.ext"), "basicConstraints=critical,CA:FALSE\nsubjectAltName=IP:127.0.0.1\n");
  openssl("x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "own.ext", "-out", "own.pem");

  const tls = ["--tls-cert", path("own.pem"), "--tls-key", path("own.key"), "--tls-client-ca", path("ca.pem")];
  const server = spawn(BINARY, ["--listen", "tls://127.0.0.1:0", "--storage", "memory", "--stop-with-stdin", ...tls], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => server.kill("SIGKILL"));
  const [line] = await once(createInterface(server.stdout), "line");
  const [, port] = /^listening on tls:\/\/127\.0\.0\.1:(\d+)/.exec(line);
  const url = `mqtts://127.0.0.1:${port}`;

  const [caPem, certPem, keyPem] = ["ca.pem", "own.pem", "own.key"].map((name) => readFileSync(path(name)));
  for (const settings of [{ caPem, certPem, keyPem }, { caPem: String(caPem), certPem: String(certPem), keyPem: String(keyPem) }]) {
    const client = await connect(url, settings);
    assert.equal((await client.set("key", "value")).applied, true);
    await client.close();
  }
  await assert.rejects(connect(url, { certPem, keyPem }), { code: "Untrusted" });
  await assert.rejects(connect(url, { caPem, caFile: path("ca.pem") }), (error) => {
    assert(error instanceof InvalidSettingsError, error);
    assert.match(error.message, /`ca_file` and `ca_pem`/);
    return true;
  });
  await assert.rejects(connect(url, { caPem, certPem, keyPem: "secret" }), (error) => {
    assert(error instanceof InvalidSettingsError && !error.message.includes("secret"), error);
    return true;
  });
  await assert.rejects(connect(url, { caPem: 7 }), { name: "TypeError", message: "caPem must be a string, a Buffer or a Uint8Array, not number" });
});
