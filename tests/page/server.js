// A server with users, a token and an HTTP port, and clients of it.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export const TOKEN = "a-token-that-nobody-guesses";
export const USER = "<script>window.hacked=1</script>";
const PASSWORD = "secret-of-the-user";

const binary = (name) => {
  const path = process.env[name];
  if (!path) throw new Error(`${name} names no program`);
  return path;
};

export class Server {
  #children = [];

  // `options` are further options of statestored.
  static async start(options = ["--log", "warn"]) {
    const server = new Server();
    server.folder = mkdtempSync(join(tmpdir(), "page-"));
    const file = (name, text) => {
      const path = join(server.folder, name);
      writeFileSync(path, text, { mode: 0o600 });
      return path;
    };
    const users = file("users", `${USER}:${PASSWORD}\n`);
    const token = file("token", TOKEN);
    server.credentials = { user: USER, password: PASSWORD };
    server.password = file("password", PASSWORD);
    const lines = server.#run(binary("STATESTORED"), [
      "--data-dir", join(server.folder, "data"), "--listen", "tcp://127.0.0.1:0", "--users-file", users,
      "--http", "http://127.0.0.1:0", "--http-token-file", token, ...options,
    ]);
    for await (const line of lines) {
      const [, kind, address] = /^(listening|http) on (.*)$/.exec(line) ?? [];
      if (kind === "listening") server.store = address.replace("tcp://", "");
      if (kind === "http") {
        server.http = address;
        break;
      }
    }
    return server;
  }

  #run(program, args, options = {}) {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
    this.#children.push(child);
    child.on("error", (error) => {
      throw error;
    });
    return createInterface({ input: child.stdout });
  }

  #client(args, options) {
    const user = encodeURIComponent(USER);
    const url = `mqtt://${user}@${this.store}?password_file=${this.password}`;
    return this.#run(binary("STATESTORE"), ["--url", url, ...args], options);
  }

  // Runs `statestore` to its end.
  async statestore(...args) {
    const lines = this.#client(args);
    const child = this.#children.pop();
    await Promise.all([
      (async () => { for await (const _ of lines); })(),
      new Promise((done, failed) => child.on("close", (code) => (code === 0 ? done() : failed(new Error(`${args}: ${code}`))))),
    ]);
  }

  // A client that watches a key; it says so on standard error.
  async watcher(id, key) {
    this.#client(["--client-id", id, "watch", key], { stdio: ["ignore", "pipe", "pipe"] });
    await new Promise((done) => this.#children.at(-1).stderr.once("data", done));
  }

  // A client that holds a lock until the end.
  async holder(id, name) {
    const lines = this.#client(["--client-id", id, "lock", name, "--", "sh", "-c", "echo held; exec sleep 600"]);
    await new Promise((done) => lines.once("line", done));
  }

  async stop() {
    for (const child of this.#children.reverse()) {
      const ended = new Promise((done) => child.once("exit", done));
      if (child.exitCode === null && child.signalCode === null && child.kill("SIGTERM")) await ended;
    }
    rmSync(this.folder, { recursive: true });
  }
}
