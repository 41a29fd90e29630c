/**
 * A lock around a machine: one program at a time moves the press.
 *
 *     node machine-lock.mts [STROKES]
 *
 * Run it twice at once: the second program waits. Ctrl-C stops the press and releases the lock. STATESTORE_URL is the address of the
 * server. Node before 22.18 does not read TypeScript: compile the program with `tsc` first.
 */
import { setTimeout as delay } from "node:timers/promises";
import { CancelledError, connect, type Guard, type Hlc, StateStoreError } from "statestore";

const strokes = Number(process.argv[2] ?? 3);
const stopping = new AbortController();
process.once("SIGINT", () => stopping.abort());

/** Moves a simulated press. A real drive compares the token, and rejects one that is lower than the highest it has seen. */
function stroke(number: number, token: Hlc): void {
  console.log(`stroke ${number} with the token ${token}`);
}

async function work(guard: Guard): Promise<void> {
  // The signal of the guard fires when the lock is lost, before another program can take it.
  const signal = AbortSignal.any([guard.signal, stopping.signal]);
  try {
    for (let number = 1; number <= strokes && !signal.aborted; number += 1) {
      stroke(number, guard.token);
      // The store rejects this write once a later holder has written the key.
      await guard.set("press-1/strokes", String(number));
      await delay(200, undefined, { signal }).catch(() => {});
    }
  } finally {
    console.log("the press stands still");
  }
}

try {
  const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883");
  const options = { duration: 2_000, wait: 30_000, signal: stopping.signal };
  console.log("waiting for the press");
  // Releases the lock after the work, and rejects with LockLostError if it was lost.
  await client.withLock("press-1/owner", work, options).catch((error: unknown) => {
    // Ctrl-C while the program waits for the lock.
    if (!(error instanceof CancelledError)) {
      throw error;
    }
  });
  await client.close();
} catch (error) {
  // LockHeldError: another program still uses the press. LockLostError: parts of the work may have run without the lock.
  console.error(error instanceof StateStoreError ? `${error.code}: ${error.message}` : error);
  process.exit(1);
}
