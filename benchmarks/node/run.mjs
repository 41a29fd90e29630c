/** One run of one client: `node run.mjs ours|peer IN_FLIGHT REQUESTS URL` prints its figures as JSON. */
import { monitorEventLoopDelay } from "node:perf_hooks";

const [which, inFlight, requests, url] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4]), process.argv[5]];
const KEYS = Array.from({ length: 1000 }, (_, i) => `benchmark/key/${i}`);
const VALUE = Buffer.alloc(100, "x");

const { open } = await import(`./${which}.mjs`);
const client = await open(url);

/** Half GET, half SET, `inFlight` of them at any time. */
async function load(count, latencies) {
  let begun = 0;
  const worker = async () => {
    while (begun < count) {
      const number = begun;
      begun += 1;
      const key = KEYS[number % KEYS.length];
      const start = process.hrtime.bigint();
      if (number % 2 === 0) {
        await client.set(key, VALUE);
      } else {
        const value = await client.get(key);
        if (value !== null && value.length !== VALUE.length) {
          throw new Error(`${key} holds ${value.length} bytes`);
        }
      }
      latencies[number] = Number(process.hrtime.bigint() - start) / 1000;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
}

await load(Math.max(Math.round(requests / 10), 2000), []);
const latencies = new Float64Array(requests);
/** In milliseconds; a sample is the time since the one before. */
const INTERVAL = 1;
const delay = monitorEventLoopDelay({ resolution: INTERVAL });
const calls = client.calls();
const cpu = process.cpuUsage();
delay.enable();
const start = process.hrtime.bigint();
await load(requests, latencies);
const seconds = Number(process.hrtime.bigint() - start) / 1e9;
delay.disable();
const { user, system } = process.cpuUsage(cpu);
const made = client.calls() - calls;
await client.close();

latencies.sort();
console.log(
  JSON.stringify({
    perSecond: requests / seconds,
    p50: latencies[Math.floor(requests * 0.5)],
    p99: latencies[Math.floor(requests * 0.99)],
    cpu: (user + system) / requests,
    calls: made / seconds,
    delay: Math.max(delay.percentile(99) / 1e6 - INTERVAL, 0),
    longestDelay: Math.max(delay.max / 1e6 - INTERVAL, 0),
  }),
);
