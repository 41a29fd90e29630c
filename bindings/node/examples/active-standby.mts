/**
 * An election: one program is active, the others stand by, and one of them takes over.
 *
 *     node active-standby.mts NAME [ROUNDS]
 *
 * Start it twice with different names. The active program works until Ctrl-C, or for so many rounds. STATESTORE_URL is the address of
 * the server. Node before 22.18 does not read TypeScript: compile the program with `tsc` first.
 */
import { setTimeout as delay } from "node:timers/promises";
import { connect, type Leadership, LockLostError, StateStoreError } from "statestore";

const name = process.argv[2];
if (name === undefined) {
  console.error("usage: active-standby.mts NAME [ROUNDS]");
  process.exit(2);
}
const rounds = Number(process.argv[3] ?? Infinity);
const stopping = new AbortController();
process.once("SIGINT", () => stopping.abort());
const pause = (time: number, signal: AbortSignal) => delay(time, undefined, { signal }).catch(() => {});

let round = 0;
/** Works until the rounds have ended, the lead is lost or the program is stopped. */
async function lead({ guard }: Leadership<string>): Promise<void> {
  const signal = AbortSignal.any([guard.signal, stopping.signal]);
  for (; round < rounds && !signal.aborted; round += 1) {
    // The store rejects this write once a later leader has written the key.
    await guard.set("line-1/plan", `round ${round} of ${name}`);
    await pause(500, signal);
  }
  if (guard.signal.aborted) {
    throw guard.signal.reason;
  }
}

try {
  const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883", { encoding: "utf8" });
  const election = client.election("line-1/active", { duration: 2_000 });
  while (round < rounds && !stopping.signal.aborted) {
    try {
      console.log(`${name} stands by`);
      const leadership = await election.campaign(name, { signal: stopping.signal });
      console.log(`${name} is active`);
      await lead(leadership).finally(() => leadership.resign());
    } catch (error) {
      if (stopping.signal.aborted) {
        break;
      }
      if (!(error instanceof LockLostError || (error instanceof StateStoreError && error.retryable))) {
        throw error;
      }
      console.error(`${name} is not active: ${error.message}`);
      await pause(1_000, stopping.signal);
    }
  }
  await client.close();
} catch (error) {
  console.error(error instanceof StateStoreError ? `${error.code}: ${error.message}` : error);
  process.exit(1);
}
