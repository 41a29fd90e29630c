/** The client in Node: does what lines on standard input tell it; see `tests/chaos/src/peer_line.rs`. */
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const { connect, Hlc, StateStoreError } = createRequire(import.meta.url)(process.argv[2]);

/** From time-outs that notice soon what is not there any more; in milliseconds. */
const SETTINGS = {
  encoding: 'utf8',
  keepAlive: 1_000,
  pingTimeout: 1_000,
  connectTimeout: 2_000,
  requestTimeout: 5_000,
  sessionExpiry: 60_000,
  reconnectDelayMin: 10,
  reconnectDelayMax: 200,
};

// Nobody may listen any more.
process.stdout.on('error', () => process.exit(0));

const clients = new Map();
const observers = new Map();

/** Times are whole nanoseconds, more than a number can hold: they are written as what they are. */
function say(line) {
  const text = JSON.stringify(line, (_, value) => (typeof value === 'bigint' ? `#${value}#` : value));
  process.stdout.write(`${text.replace(/"#(\d+)#"/g, '$1')}\n`);
}

const now = () => process.hrtime.bigint();
const version = (of) => of?.toString() ?? null;

function deleted(outcome) {
  return outcome.is === 'deleted' ? { told: 'deleted', version: version(outcome.version) } : { told: outcome.is };
}

function condition(word) {
  return { condition: word.startsWith('=') ? { ifVersion: Hlc.parse(word.slice(1)) } : word };
}

async function hold(client, name, lease, wait, time) {
  const guard = await client.lock(name, { duration: Number(lease), wait: Number(wait) });
  const from = now();
  const end = from + BigInt(time) * 1_000_000n;
  let until = from;
  for (;;) {
    // The time is read before the guard is asked: when it said yes, it held the lock at least since then.
    const asked = now();
    if (asked > end || !guard.isValid()) break;
    until = asked;
    await sleep(2);
  }
  const token = guard.token.toString();
  // If it cannot be released, its lease ends.
  await guard.release().catch(() => {});
  return { told: 'held', token, held_from: from, held_until: until };
}

async function follow(observes, observer) {
  for await (const observation of observer) {
    const line = { observes, told: observation.is };
    if (observation.is === 'set') Object.assign(line, { value: observation.value, version: version(observation.version) });
    if (observation.is === 'deleted') line.version = version(observation.version);
    say(line);
  }
  if (observers.has(observes)) say({ observes, told: 'ended', text: String(observer.lostReason()) });
}

const verbs = {
  async close(client, id, name) {
    clients.delete(name);
    await client.close();
    return { told: 'closed' };
  },
  async get(client, id, name, key) {
    const entry = await client.get(key);
    return entry === null ? { told: 'none' } : { told: 'entry', value: entry.value, version: version(entry.version) };
  },
  async set(client, id, name, key, value, when) {
    const outcome = await client.set(key, value, condition(when));
    return { told: outcome.applied ? 'applied' : 'not_applied', version: version(outcome.version) };
  },
  del: async (client, id, name, key) => deleted(await client.del(key)),
  vdel: async (client, id, name, key, value) => deleted(await client.vdel(key, value)),
  async count(client, id, name, key) {
    const outcome = await client.update(key, (old) => String(Number(old?.value ?? 0) + 1));
    return { told: outcome.is, version: version(outcome.version) };
  },
  hold: (client, id, name, ...rest) => hold(client, ...rest),
  async observe(client, id, name, key) {
    const observer = await client.observe(key);
    observers.set(id, observer);
    follow(id, observer);
    return { told: 'observing' };
  },
  async forget(client, id, name, observes) {
    const observer = observers.get(Number(observes));
    observers.delete(Number(observes));
    observer.close();
    return { told: 'closed' };
  },
};

async function act(id, verb, name, ...rest) {
  if (verb === 'connect') {
    const [url, authority] = rest;
    clients.set(name, await connect(url, { ...SETTINGS, ...(authority === '-' ? {} : { caFile: authority }) }));
    return { told: 'connected' };
  }
  return verbs[verb](clients.get(name), id, name, ...rest);
}

async function answer(line) {
  const [number, ...words] = line.split(' ');
  const id = Number(number);
  const from = now();
  let told;
  try {
    told = await act(id, ...words);
  } catch (error) {
    // Whatever else there is ends the process: it is a fault of the library or of this program.
    if (!(error instanceof StateStoreError)) throw error;
    told = { told: 'error', kind: error.code, outcome: error.outcome, text: error.message };
  }
  say({ id, from, to: now(), ...told });
}

for await (const line of createInterface({ input: process.stdin })) answer(line);
await Promise.all([...clients.values()].map((client) => client.close()));
