/** A real Node-RED with these nodes, which ends with its test. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect } from "statestore";
import { startServer } from "statestore/testing";

const ROOT = join(import.meta.dirname, "..");
/** That of this checkout, unless the environment names another one. */
const BINARY = process.env.STATESTORED ?? join(ROOT, "../../target/debug/statestored");
const PROGRAM = join(ROOT, "node_modules/node-red/red.js");
/** Begins a line of Node-RED's output that a flow has sent to the test. */
const MARK = "@@";

export async function serverOf(t, options) {
  const server = await startServer({ binary: BINARY, ...options });
  t.after(() => server.kill());
  return server;
}

export async function clientOf(t, server, settings) {
  const client = await connect(server.url, { encoding: "utf8", ...settings });
  t.after(() => client.close());
  return client;
}

export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Items that arrive over time; `next` returns the first that fits, and drops those before it. */
class Feed {
  #items = [];
  #waiting = [];

  push(item) {
    this.#items.push(item);
    this.#waiting.splice(0).forEach((wake) => wake());
  }

  async next(fits = () => true) {
    for (;;) {
      const index = this.#items.findIndex(fits);
      if (index >= 0) {
        return this.#items.splice(0, index + 1).at(-1);
      }
      await new Promise((resolve) => this.#waiting.push(resolve));
    }
  }
}

export class NodeRed {
  /** What the nodes `emit` of a flow have sent: the message and the name of the node. */
  messages = new Feed();
  /** The statuses of the nodes: `node` and `text`. */
  statuses = new Feed();
  /** Other lines of the output. */
  lines = new Feed();
  log = [];
  #child;
  #folder;

  /** `contextStorage` is JavaScript for settings.js. */
  static async start(t, { contextStorage = "undefined" } = {}) {
    const red = new NodeRed();
    t.after(() => red.stop());
    await red.#start(contextStorage);
    return red;
  }

  async #start(contextStorage) {
    this.#folder = mkdtempSync(join(tmpdir(), "node-red-"));
    mkdirSync(join(this.#folder, "node_modules"));
    symlinkSync(ROOT, join(this.#folder, "node_modules/node-red-contrib-statestore"));
    const manifest = { name: "project", private: true, dependencies: { "node-red-contrib-statestore": "*" } };
    writeFileSync(join(this.#folder, "package.json"), JSON.stringify(manifest));
    writeFileSync(
      join(this.#folder, "settings.js"),
      `module.exports = {
        uiHost: "127.0.0.1",
        flowFile: "flows.json",
        credentialSecret: false,
        telemetry: { enabled: false, updateNotification: false },
        editorTheme: { tours: false, palette: { catalogues: [] } },
        externalModules: { palette: { allowInstall: false } },
        diagnostics: { enabled: false },
        contextStorage: ${contextStorage},
        functionGlobalContext: { emit: (item) => console.log("${MARK}" + JSON.stringify(item)) },
      };`,
    );
    const port = await freePort();
    this.url = `http://127.0.0.1:${port}`;
    const args = [PROGRAM, "--settings", join(this.#folder, "settings.js"), "--userDir", this.#folder, "--port", String(port)];
    const env = { ...process.env, NODE_PATH: "" };
    this.#child = spawn(process.execPath, args, { cwd: this.#folder, env, stdio: ["ignore", "pipe", "pipe"] });
    const ready = new Set(["Started flows", "Server now running"]);
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    const isReady = new Promise((resolve) => {
      const read = (line) => {
        this.#read(line);
        [...ready].filter((text) => line.includes(text)).forEach((text) => ready.delete(text));
        if (ready.size === 0) {
          resolve(true);
        }
      };
      createInterface({ input: this.#child.stdout }).on("line", read);
      createInterface({ input: this.#child.stderr }).on("line", read);
    });
    assert.equal(await Promise.race([isReady, ended]), true, `Node-RED has ended:\n${this.log.join("\n")}`);
    this.lines = new Feed();
  }

  #read(line) {
    if (!line.startsWith(MARK)) {
      this.log.push(line);
      this.lines.push(line);
      return;
    }
    const item = JSON.parse(line.slice(MARK.length));
    (item.status === undefined ? this.messages : this.statuses).push(item.status ?? item);
  }

  /** Deploys these nodes on one tab, whose statuses and uncaught errors are reported. */
  async deploy(nodes, type = "full") {
    // A node with coordinates is no configuration node.
    const flow = nodes.map((node) => (node.type === "statestore-config" ? node : { z: "tab", wires: [], x: 0, y: 0, ...node }));
    const report = "global.get('emit')({ status: { node: msg.status.source.name || msg.status.source.id, text: msg.status.text ?? '' } });";
    const flows = [
      { id: "tab", type: "tab", label: "tests" },
      ...flow,
      { id: "status", z: "tab", type: "status", scope: null, x: 0, y: 0, wires: [["report"]] },
      { id: "report", z: "tab", type: "function", func: report, outputs: 0, x: 0, y: 0, wires: [] },
    ];
    await this.deployFlows(flows, type);
  }

  /** Deploys flows as they are. */
  async deployFlows(flows, type = "full") {
    const started = this.lines.next((line) => /Started (modified )?(flows|nodes)/.test(line));
    const response = await fetch(`${this.url}/flows`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Node-RED-API-Version": "v2", "Node-RED-Deployment-Type": type },
      body: JSON.stringify({ flows }),
    });
    assert.equal(response.status, 200, await response.text());
    // The response does not wait for it.
    await started;
  }

  /** Presses the button of an inject node. */
  async inject(id) {
    const response = await fetch(`${this.url}/inject/${id}`, { method: "POST" });
    assert.equal(response.status, 200, id);
  }

  /** Sends a message into the flow behind `entry`, and returns the response: the message, or the error that a catch node got. */
  async send(path, message = {}) {
    const response = await fetch(`${this.url}/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(message),
    });
    return response.json();
  }

  async stop() {
    if (this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = new Promise((resolve) => this.#child.once("exit", resolve));
      this.#child.kill("SIGTERM");
      await ended;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export const configOf = (server, more = {}) => ({ id: "server", type: "statestore-config", url: server.url, timeout: "10", tls: "none", ...more });

/** An entry by HTTP, whose body becomes the message, and what answers with the message or the error. */
export const entry = (path, to) => [
  { id: `${path}-in`, type: "http in", url: `/${path}`, method: "post", wires: [[`${path}-message`]] },
  { id: `${path}-message`, type: "function", func: "return { req: msg.req, res: msg.res, ...msg.payload };", outputs: 1, wires: [[to]] },
];
const ANSWER = "const { req, res, ...rest } = msg; return { res, payload: { ...rest, error: msg.error && { code: msg.error.code, message: msg.error.message } } };";
export const answer = () => [
  { id: "catch", type: "catch", scope: null, uncaught: false, wires: [["answer"]] },
  { id: "answer", type: "function", func: ANSWER, outputs: 1, wires: [["response"]] },
  { id: "response", type: "http response", statusCode: "", headers: {} },
];

/** A node that reports the messages that it gets, with its name. */
export const emit = (name) => ({
  id: name,
  type: "function",
  outputs: 0,
  func: `const { req, res, ...rest } = msg; global.get("emit")({ to: "${name}", ...rest });`,
});
