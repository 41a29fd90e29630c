/**
 * Presence: each gateway announces itself by a key that expires unless it is renewed.
 *
 *     node presence.mts NAME    announces the gateway NAME until Ctrl-C
 *     node presence.mts         prints the present gateways, and each that comes or goes, until Ctrl-C
 *
 * STATESTORE_URL is the address of the server. Node before 22.18 does not read TypeScript: compile the program with `tsc` first.
 */
import { setTimeout as delay } from "node:timers/promises";
import { type Client, connect, StateStoreError } from "statestore";

const FOLDER = "gateways/";
/** Milliseconds. Three announcements may fail before the gateway counts as gone. */
const EXPIRES_IN = 3_000;

async function announce(client: Client<string>, name: string): Promise<void> {
  const stopping = new AbortController();
  process.once("SIGINT", () => stopping.abort());
  const key = `${FOLDER}${name}`;
  while (!stopping.signal.aborted) {
    try {
      await client.set(key, `process ${process.pid}`, { expiresIn: EXPIRES_IN, timeout: EXPIRES_IN });
      console.log(`${name} is announced`);
    } catch (error) {
      if (!(error instanceof StateStoreError && error.retryable)) {
        throw error;
      }
      console.error(`${name} was not announced: ${error.message}`);
    }
    await delay(EXPIRES_IN / 3, undefined, { signal: stopping.signal }).catch(() => {});
  }
  // The others see at once that the gateway is gone.
  await client.del(key, { timeout: EXPIRES_IN });
}

function printPresent(key: string, value: string): void {
  console.log(`${key.slice(FOLDER.length)} is present: ${value}`);
}

/** Prints the gateways that are present, and then each that comes or goes. */
async function watch(client: Client<string>): Promise<void> {
  const gateways = await client.mirror(`${FOLDER}*`);
  await gateways.synced();
  process.once("SIGINT", () => gateways.close());
  // Nothing happens between these two calls, so that no change is missed.
  const [changes, entries] = [gateways.changes(), gateways.snapshot()];
  const present = new Map<string, string>(entries.map(([key, { value }]) => [key, value]));
  for (const [key, value] of [...present].sort()) {
    printPresent(key, value);
  }
  console.log(`gateways present: ${present.size}`);
  for await (const change of changes) {
    if (change.is === "set") {
      // A renewal sets the same value again.
      if (present.get(change.key) !== change.value) {
        printPresent(change.key, change.value);
      }
      present.set(change.key, change.value);
    } else if (change.is === "deleted" && present.delete(change.key)) {
      console.log(`${change.key.slice(FOLDER.length)} is gone`);
    } // "resync": changes may have been missed. The differences follow.
  }
  const error = gateways.error();
  if (error !== null) {
    throw error;
  }
}

try {
  const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883", { encoding: "utf8" });
  const name = process.argv[2];
  await (name === undefined ? watch(client) : announce(client, name));
  await client.close();
} catch (error) {
  console.error(error instanceof StateStoreError ? `${error.code}: ${error.message}` : error);
  process.exit(1);
}
