/** Which options there are. One with a typing error would be one that silently does nothing, so it is refused. */

const CALL = ["signal"];
const TIMED = ["timeout", ...CALL];
const GET = ["remaining", "eventual", ...TIMED];
const WRITE = ["fencingToken", "retry", ...TIMED];
const DEL = ["ifVersion", ...WRITE];
const SET = ["condition", "expiresIn", "persist", "coalesce", ...WRITE];
const UPDATE = ["expiresIn", "persist", ...TIMED];
const LEASE = ["duration", "renewal", "holder", "resume", "timeout", "foreignLeaseMax"];
const ELECTION = [...LEASE, "wait"];
const LOCK = [...ELECTION, ...CALL];

const without = (names: string[], name: string) => names.filter((other) => other !== name);

/** The options of each call, as index.d.ts, opentelemetry.d.ts and testing.d.ts declare them. */
export const KNOWN = {
  connect: CALL,
  close: ["timeout"],
  get: GET,
  getMany: GET,
  exists: without(GET, "remaining"),
  ttl: without(GET, "remaining"),
  touch: without(UPDATE, "expiresIn"),
  incr: UPDATE,
  ping: TIMED,
  capabilities: CALL,
  transact: ["persist", "retry", ...TIMED],
  "transaction.set": ["condition", "expiresIn", "fencingToken"],
  "transaction.del": ["fencingToken", "ifVersion"],
  set: SET,
  setMany: SET,
  del: DEL,
  delMany: WRITE,
  vdel: DEL,
  scan: TIMED,
  scanEntries: ["fallback", ...TIMED],
  observe: ["overflow", "initial", ...TIMED],
  observeMatching: ["refresh", "maxKeys", ...TIMED],
  mirror: ["refresh", "maxKeys", "maxBytes", ...TIMED],
  update: UPDATE,
  lease: LEASE,
  lock: LOCK,
  withLock: LOCK,
  election: ELECTION,
  nextPage: CALL,
  next: TIMED,
  synced: TIMED,
  acquire: CALL,
  release: CALL,
  holder: CALL,
  lost: CALL,
  renew: CALL,
  leave: CALL,
  finish: [],
  "guard.release": TIMED,
  "guard.set": without(SET, "fencingToken"),
  "guard.update": UPDATE,
  "guard.del": without(DEL, "fencingToken"),
  "guard.vdel": without(DEL, "fencingToken"),
  "lease.observe": CALL,
  "election.observe": CALL,
  campaign: CALL,
  leader: CALL,
  proclaim: CALL,
  instrument: ["keys", "tracerProvider", "meterProvider"],
  startServer: ["binary", "dataDir", "port", "args"],
} satisfies Record<string, string[]>;

export type Call = keyof typeof KNOWN;

/** Refuses members that are not known; `complain` begins the message. */
export function known(given: object, names: readonly string[], complain: (unknown: string) => string): void {
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) {
      throw new TypeError(`${complain(name)}; the nearest is ${nearest(name, names)}`);
    }
  }
}

/** The name that has most in common with one that is unknown; one that begins with it, if there is one. */
function nearest(unknown: string, names: readonly string[]): string {
  const longer = names.find((name) => folded(name).startsWith(folded(unknown)));
  if (longer !== undefined) {
    return longer;
  }
  const [wanted, ...others] = names.map((name) => ({ name, distance: distance(folded(unknown), folded(name)) }));
  return others.reduce((best, other) => (other.distance < best.distance ? other : best), wanted as { name: string; distance: number }).name;
}

/** Other languages write `expires_in`. */
function folded(name: string): string {
  return name.replace(/[_-]/g, "").toLowerCase();
}

/** How many characters must be added, removed or replaced. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (const [index, character] of [...a].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= b.length; column += 1) {
      const replaced = (row[column - 1] as number) + (character === b[column - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[column] as number) + 1, (next[column - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}
