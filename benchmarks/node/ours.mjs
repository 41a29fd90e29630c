/** Our client. */
import { connect } from "statestore";

export async function open(url) {
  const client = await connect(url);
  return {
    set: (key, value) => client.set(key, value),
    get: async (key) => (await client.get(key))?.value ?? null,
    /** Calls into the event loop so far. */
    calls: () => client.counters().wakeUps,
    close: () => client.close(),
  };
}
