/** Programs of a few lines in processes of their own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");
const PRELUDE = `
  import { connect } from "statestore";
  const url = process.env.URL_OF_SERVER;
`;

/** Runs a program against a server to its end: its exit code or signal, and what it printed. */
export function run(t, server, code, nodeOptions = []) {
  const child = start(t, server, code, nodeOptions);
  let [printed, complained] = ["", ""];
  child.stdout.on("data", (text) => (printed += text));
  child.stderr.on("data", (text) => (complained += text));
  return new Promise((resolve) => {
    child.on("close", (exit, signal) => resolve({ exit: exit ?? signal, printed: printed.trim(), complained }));
  });
}

/** Starts one. */
export function start(t, server, code, nodeOptions = []) {
  const args = [...nodeOptions, "--input-type=module", "--eval", PRELUDE + code];
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, URL_OF_SERVER: server.url },
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.after(() => child.kill("SIGKILL"));
  // From the start, since it may end at any time.
  return Object.assign(child, { exited: once(child, "exit") });
}
