/** A real server for tests; testing.d.ts declares it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Server as Declared, ServerOptions } from "../testing.js";
import * as args from "./arguments.js";
import { asyncDispose } from "./disposal.js";

const READY = /^listening on tcp:\/\/(.*):(\d+)$/;

class Server implements Declared {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly #process: ChildProcess;
  readonly #gone: Promise<unknown>;

  constructor(process: ChildProcess, host: string, port: number, gone: Promise<unknown>) {
    this.url = `mqtt://${host}:${port}`;
    this.port = port;
    this.pid = process.pid as number;
    this.#process = process;
    this.#gone = gone;
  }

  async stop(): Promise<void> {
    this.#process.kill("SIGTERM");
    await this.#gone;
  }

  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#gone;
  }

  async [asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Servers that run, to be ended with this process. */
const running = new Set<ChildProcess>();

function endAll(): void {
  for (const process of running) {
    process.kill("SIGKILL");
  }
}

/** That of the package @statestore/server, if it is installed. */
function packaged(): string | undefined {
  try {
    return (require("@statestore/server") as { statestoredPath: string }).statestoredPath;
  } catch {
    return undefined;
  }
}

export async function startServer(given: ServerOptions = {}): Promise<Declared> {
  const options = args.options("startServer", given) as ServerOptions;
  const binary = options.binary ?? process.env.STATESTORED ?? packaged() ?? "statestored";
  const storage = options.dataDir === undefined ? ["--storage", "memory"] : ["--data-dir", options.dataDir];
  const listen = ["--listen", `tcp://127.0.0.1:${options.port ?? 0}`];
  const server = spawn(binary, [...listen, ...storage, ...(options.args ?? [])], { stdio: ["ignore", "pipe", "pipe"] });
  if (running.size === 0) {
    process.on("exit", endAll);
  }
  running.add(server);
  const gone = new Promise<Error>((resolve) => {
    const end = (how: Error) => {
      running.delete(server);
      if (running.size === 0) {
        process.off("exit", endAll);
      }
      resolve(how);
    };
    // Not at `exit`: what it said last may not be read yet then.
    server.once("close", (code, signal) => end(new Error(signal === null ? `it ended with code ${code}` : `it was ended by ${signal}`)));
    server.once("error", end);
  });
  let said = "";
  server.stderr.on("data", (text: Buffer) => {
    // What matters of a server that does not start is what it said last.
    said = (said + text.toString()).slice(-4096);
  });
  const lines = createInterface({ input: server.stdout });
  const line = once(lines, "line").then(([line]) => line as string);
  const ready = await Promise.race([line, gone]);
  const match = typeof ready === "string" ? READY.exec(ready) : null;
  if (match === null) {
    server.kill("SIGKILL");
    const end = await gone;
    const cause = said.trim() === "" ? end : new Error(said.trim());
    throw new Error(`${binary} does not start; set STATESTORED to the path of statestored, or install @statestore/server`, { cause });
  }
  return new Server(server, match[1] as string, Number(match[2]), gone);
}
