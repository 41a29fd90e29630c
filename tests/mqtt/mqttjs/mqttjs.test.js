// MQTT.js, a client that others wrote, against the server: messages, sessions, wills, and the store by hand.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { connect } from "mqtt";

const GUID = "FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8";
const REQUEST = `statestore/v1/${GUID}/command/invoke`;

// Behind this broker the store is asked, and nothing else.
const BROKER = process.env.TESTED_BROKER;
const listener = BROKER ? test.skip : test;

/** The store behind a broker of its own, which ../broker.py starts. */
async function attachedOf(t) {
  const python = fileURLToPath(new URL("../broker.py", import.meta.url));
  const broker = spawn("python3", [python], { stdio: ["pipe", "pipe", "inherit"] });
  const [port] = await once(createInterface({ input: broker.stdout }), "line");
  const options = ["--storage", "memory", "--attach", `mqtt://127.0.0.1:${port}`];
  const child = spawn(process.env.STATESTORED_BIN, options, { stdio: ["ignore", "ignore", "pipe"] });
  t.after(async () => {
    const ended = [once(child, "exit"), once(broker, "exit")];
    child.kill("SIGKILL");
    broker.stdin.end();
    await Promise.all(ended);
  });
  for await (const line of createInterface({ input: child.stderr })) {
    if (line.includes(" attached to the broker")) break;
  }
  child.stderr.resume();
  return { port: Number(port) };
}

async function serverOf(t, port = 0, folder = mkdtempSync(join(tmpdir(), "mqttjs-"))) {
  const options = ["--data-dir", folder, "--listen", `tcp://127.0.0.1:${port}`, "--log", "warn"];
  const child = spawn(process.env.STATESTORED_BIN, options, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const server = {
    folder,
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
  };
  t.after(async () => {
    await server.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  server.port = Number(/^listening on tcp:\/\/127\.0\.0\.1:(\d+)$/.exec(line)[1]);
  return server;
}

async function clientOf(t, server, options) {
  const client = connect(`mqtt://127.0.0.1:${server.port}`, { protocolVersion: 5, reconnectPeriod: 50, ...options });
  t.after(() => client.endAsync(true));
  // A lost connection is an error first, and made again then.
  client.on("error", () => {});
  // What a session has kept comes at once.
  client.next = messagesOf(client);
  [client.connack] = await once(client, "connect");
  return client;
}

/** What arrives, one after the other. */
function messagesOf(client) {
  const come = [];
  const wanted = [];
  client.on("message", (topic, payload, packet) => {
    const message = { topic, text: payload.toString(), properties: packet.properties ?? {} };
    const want = wanted.shift();
    if (want) want(message);
    else come.push(message);
  });
  return () => (come.length ? Promise.resolve(come.shift()) : new Promise((resolve) => wanted.push(resolve)));
}

/** Requests to the store; `notification` is the next one. */
async function storeOf(client) {
  const id = client.options.clientId;
  const response = `clients/${id}/services/statestore/_any_/command/invoke/response`;
  const hex = Buffer.from(id).toString("hex").toUpperCase();
  await client.subscribeAsync([response, `clients/statestore/v1/${GUID}/${hex}/command/notify/#`], { qos: 1 });
  const waiting = new Map();
  const notifications = [];
  let heard;
  let number = 0;
  client.on("message", (topic, payload, packet) => {
    if (topic === response) {
      const correlation = packet.properties.correlationData.toString();
      assert.equal(packet.properties.userProperties.__stat, "200");
      waiting.get(correlation)(payload.toString());
      waiting.delete(correlation);
    } else {
      notifications.push(payload.toString());
      heard?.();
    }
  });
  return {
    ask(...words) {
      number += 1;
      const correlationData = Buffer.from(String(number).padStart(16, "0"));
      const answer = new Promise((resolve) => waiting.set(correlationData.toString(), resolve));
      const payload = `*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join("")}`;
      const userProperties = { __ts: `${String(Date.now()).padStart(15, "0")}:00000:mqttjs` };
      client.publish(REQUEST, payload, { qos: 1, properties: { responseTopic: response, correlationData, userProperties } });
      return answer;
    },
    async notification() {
      while (!notifications.length) await new Promise((resolve) => (heard = resolve));
      return notifications.shift();
    },
  };
}

listener("messages arrive with their properties, in their order", async (t) => {
  const server = await serverOf(t);
  const [one, other] = [await clientOf(t, server), await clientOf(t, server, { topicAliasMaximum: 10, autoAssignTopicAlias: true })];
  const { next } = one;
  await one.subscribeAsync("rooms/+/temperature", { qos: 1 });
  await other.publishAsync("rooms/1/humidity", "9", { qos: 1 });
  const properties = { userProperties: { unit: "°C" }, contentType: "text/plain", responseTopic: "answers" };
  await other.publishAsync("rooms/1/temperature", "20", { qos: 1, properties });
  const first = await next();
  assert.equal(first.text, "20");
  assert.deepEqual({ ...first.properties.userProperties }, properties.userProperties);
  assert.equal(first.properties.contentType, "text/plain");
  assert.equal(first.properties.responseTopic, "answers");
  for (let number = 0; number < 3_000; number += 1) other.publish("rooms/2/temperature", String(number), { qos: 1 });
  for (let number = 0; number < 3_000; number += 1) assert.equal((await next()).text, String(number));
});

listener("a kept session collects messages, and a will is told", async (t) => {
  const server = await serverOf(t);
  const kept = { clientId: "kept", clean: false, properties: { sessionExpiryInterval: 60 } };
  const will = { topic: "wills", payload: Buffer.from("gone"), qos: 1 };
  const watcher = await clientOf(t, server);
  await watcher.subscribeAsync("wills", { qos: 1 });
  const first = await clientOf(t, server, { ...kept, will, reconnectPeriod: 0 });
  await first.subscribeAsync("news", { qos: 1 });
  first.stream.destroy();
  assert.equal((await watcher.next()).text, "gone");
  for (const number of [1, 2, 3]) await watcher.publishAsync("news", String(number), { qos: 1 });
  const second = await clientOf(t, server, kept);
  assert(second.connack.sessionPresent);
  for (const number of [1, 2, 3]) assert.equal((await second.next()).text, String(number));
});

test("the store answers, and tells of changes", async (t) => {
  const server = BROKER ? await attachedOf(t) : await serverOf(t);
  const client = await clientOf(t, server, { clientId: "asker" });
  const store = await storeOf(client);
  assert.equal(await store.ask("SET", "key", "value"), "+OK\r\n");
  assert.equal(await store.ask("GET", "key"), "$5\r\nvalue\r\n");
  assert.equal(await store.ask("KEYNOTIFY", "key"), "+OK\r\n");
  const other = await storeOf(await clientOf(t, server, { clientId: "other" }));
  assert.equal(await other.ask("SET", "key", "other"), "+OK\r\n");
  assert.match(await store.notification(), /SET.*\r\n\$5\r\nother\r\n$/s);
  assert.equal(await other.ask("DEL", "key"), ":1\r\n");
  assert.match(await store.notification(), /DELETE/);
  // No more than the server's Receive Maximum, which MQTT.js does not heed.
  const length = Math.min(500, client.connack.properties.receiveMaximum ?? 65_535);
  const answers = Array.from({ length }, (_, number) => store.ask("SET", `key-${number}`, String(number)));
  assert((await Promise.all(answers)).every((answer) => answer === "+OK\r\n"));
  const last = String(length - 1);
  assert.equal(await store.ask("GET", `key-${last}`), `$${last.length}\r\n${last}\r\n`);
});

listener("after a kill of the server the client comes back, and what was stored is there", async (t) => {
  const server = await serverOf(t);
  const client = await clientOf(t, server, { clientId: "survivor" });
  const store = await storeOf(client);
  assert.equal(await store.ask("SET", "key", "value"), "+OK\r\n");
  // `once` of Node would fail with the loss of the connection.
  const back = new Promise((resolve) => client.once("connect", resolve));
  await server.kill();
  // The client knows only this port, which was free a moment ago.
  await serverOf(t, server.port, server.folder);
  const { sessionPresent } = await back;
  assert.equal(sessionPresent, false);
  // It has subscribed again by itself.
  assert.equal(await store.ask("GET", "key"), "$5\r\nvalue\r\n");
});

listener("what the server does not have is announced", async (t) => {
  const { properties } = (await clientOf(t, await serverOf(t))).connack;
  assert.equal(properties.maximumQoS, 1);
  assert.equal(properties.retainAvailable, false);
  assert.equal(properties.sharedSubscriptionAvailable, false);
});
