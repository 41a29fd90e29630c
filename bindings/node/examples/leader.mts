/**
 * Start it twice: one instance leads and works, the other stands by and takes over when the first ends or loses the lead.
 *
 * Environment: STATESTORE_URL, NAME.
 */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "statestore";

const name = process.env.NAME ?? String(process.pid);
const stopping = new AbortController();
process.once("SIGTERM", () => stopping.abort());

await using client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883");
const election = client.election("workers/leader", { duration: 2_000 });

while (!stopping.signal.aborted) {
  console.log(`${name} stands by`);
  const campaign = election.campaign(name, { signal: stopping.signal });
  const leadership = await campaign.catch((error: unknown) => {
    if (stopping.signal.aborted) {
      return undefined;
    }
    throw error;
  });
  if (leadership === undefined) {
    break;
  }
  await using lead = leadership;
  console.log(`${name} leads`);
  // Fires when the lead is lost, before anybody else can have it.
  const signal = AbortSignal.any([lead.guard.signal, stopping.signal]);
  let rounds = 0;
  while (!signal.aborted) {
    rounds += 1;
    // Written under the fencing token of the lead: a leader that was frozen and wakes up too late is refused.
    await lead.guard.set("workers/rounds", `${name}: ${rounds}`, { signal }).catch(() => {});
    await delay(50, undefined, { signal }).catch(() => {});
  }
}
console.log(`${name} ends`);
