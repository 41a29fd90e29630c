/**
 * Presence: each gateway announces itself by a key that expires unless it is renewed.
 *
 *     node presence.mts NAME    announces the gateway NAME until Ctrl-C
 *     node presence.mts         prints the gateways that are present
 *
 * STATESTORE_URL is the address of the server. Node before 22.18 does not read TypeScript: compile the program with `tsc` first.
 */
import { setTimeout as delay } from "node:timers/promises";
import { type Client, connect, StateStoreError } from "statestore";

/** Milliseconds. Three announcements may fail before the gateway counts as gone. */
const EXPIRES_IN = 3_000;

async function announce(client: Client<string>, name: string): Promise<void> {
  const stopping = new AbortController();
  process.once("SIGINT", () => stopping.abort());
  const key = `gateways/${name}`;
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

async function show(client: Client<string>): Promise<void> {
  const keys: string[] = [];
  for await (const key of client.scan("gateways/*")) {
    keys.push(key);
  }
  keys.sort();
  for (const [index, entry] of (await client.getMany(keys)).entries()) {
    // A key may expire between the two calls.
    if (entry !== null) {
      console.log(`${keys[index]?.slice("gateways/".length)}: ${entry.value}`);
    }
  }
}

try {
  const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883", { encoding: "utf8" });
  const name = process.argv[2];
  await (name === undefined ? show(client) : announce(client, name));
  await client.close();
} catch (error) {
  console.error(error instanceof StateStoreError ? `${error.code}: ${error.message}` : error);
  process.exit(1);
}
