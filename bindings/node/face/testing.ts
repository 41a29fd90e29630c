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
  // The system closes the pipe however this process or worker ends, and the server ends with it.
  const server = spawn(binary, [...listen, ...storage, "--stop-with-stdin", ...(options.args ?? [])], { stdio: ["pipe", "pipe", "pipe"] });
  const gone = new Promise<Error>((resolve) => {
    // Not at `exit`: its last lines may not be read yet then.
    server.once("close", (code, signal) => resolve(new Error(signal === null ? `it ended with code ${code}` : `it was ended by ${signal}`)));
    server.once("error", resolve);
  });
  let output = "";
  server.stderr.on("data", (text: Buffer) => {
    // The end of the output explains why a server does not start.
    output = (output + text.toString()).slice(-4096);
  });
  const lines = createInterface({ input: server.stdout });
  const line = once(lines, "line").then(([line]) => line as string);
  const ready = await Promise.race([line, gone]);
  const match = typeof ready === "string" ? READY.exec(ready) : null;
  if (match === null) {
    server.kill("SIGKILL");
    const end = await gone;
    const cause = output.trim() === "" ? end : new Error(output.trim());
    // Its last line is the reason; the lines before are the log.
    const reason = cause.message.slice(cause.message.lastIndexOf("\n") + 1);
    const hint = (end as NodeJS.ErrnoException).code === "ENOENT" ? "; set STATESTORED to the path of statestored, or install @statestore/server" : "";
    throw new Error(`${binary} does not start: ${reason}${hint}`, { cause });
  }
  return new Server(server, match[1] as string, Number(match[2]), gone);
}
