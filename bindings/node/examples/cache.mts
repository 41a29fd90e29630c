/**
 * A cache in front of something slow, shared by all programs. Its entries expire by themselves.
 *
 *     node cache.mts [MACHINE]
 *
 * Run it twice: the second run finds the value that the first run stored. STATESTORE_URL is the address of the server. Node before
 * 22.18 does not read TypeScript: compile the program with `tsc` first.
 */
import { setTimeout as delay } from "node:timers/promises";
import { type Client, connect, StateStoreError } from "statestore";

/** Returns the cached value of a key, or computes and stores it. Without the store, every call computes. */
async function getOrCompute(client: Client<string>, key: string, compute: () => Promise<string>, expiresIn: number): Promise<string> {
  try {
    const entry = await client.get(key, { timeout: 1_000 });
    if (entry !== null) {
      return entry.value;
    }
  } catch (error) {
    console.error(`the cache was not read: ${error}`);
  }
  const value = await compute();
  try {
    await client.set(key, value, { expiresIn, timeout: 1_000 });
  } catch (error) {
    console.error(`the cache was not written: ${error}`);
  }
  return value;
}

/** Simulates a slow machine. */
async function readPlate(machine: string): Promise<string> {
  console.log(`reading the plate of ${machine}`);
  await delay(200);
  return "Contoso 400";
}

const machine = process.argv[2] ?? "press-1";
try {
  const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883", { encoding: "utf8" });
  for (let round = 0; round < 3; round += 1) {
    const plate = await getOrCompute(client, `cache/plate/${machine}`, () => readPlate(machine), 60_000);
    console.log(`${machine}: ${plate}`);
  }
  await client.close();
} catch (error) {
  console.error(error instanceof StateStoreError ? `${error.code}: ${error.message}` : error);
  process.exit(1);
}
