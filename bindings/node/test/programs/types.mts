/** What the types promise and refuse; compiled, never run. */
import { Client, connect, Hlc, StateStoreError, TimedOutError, type DelOutcome, type Entries, type Entry, type ErrorCode, type Guard, type MatchObservation, type MatchObserver, type Mirror, type Observation, type SetOutcome } from "statestore";
import { startServer, type Server } from "statestore/testing";

export async function promises(client: Client): Promise<void> {
  const entry: Entry | null = await client.get("key", { timeout: 100, signal: AbortSignal.timeout(50) });
  const value: Buffer | undefined = entry?.value;
  const entries: Entries = await client.getMany(["key"], { timeout: 100 });
  entries.snapshot satisfies boolean;
  entries[0]?.value satisfies Buffer | undefined;
  const list: (Entry | null)[] = entries;
  const { applied, version } = await client.set("key", value ?? new Uint8Array(1), { condition: "if_absent", expiresIn: 1 });
  const isApplied: boolean = applied;
  version satisfies Hlc | null;
  const sure = await client.set("key", "value", { condition: { ifVersion: Hlc.parse("7:1:StateStore") } });
  const newest: Hlc[] = [...(sure.applied ? [sure.version] : []), Hlc.parse("1:0:a")].sort(Hlc.compare);
  const transaction = client.transaction().set("a", "1", { expiresIn: 5 }).del("b", { ifVersion: newest[0] });
  const outcome = await client.transact(transaction, { persist: true });
  (outcome.applied ? outcome.versions : [outcome.version]) satisfies (Hlc | null)[];
  (await client.get("key", { remaining: true, eventual: true }))?.expiresIn satisfies number | "unknown" | undefined;
  // @ts-expect-error: a transaction has no time-out of its own operations
  transaction.set("a", "1", { timeout: 5 });
  const answers: [boolean, number | null, boolean, number] = [
    await client.exists("key", { eventual: true }),
    await client.ttl("key"),
    await client.touch("key", 1_000, { persist: true }),
    await client.ping({ timeout: 100 }),
  ];
  const sums: [number, number, bigint] = [await client.incr("n"), await client.incr("n", 2, { timeout: 100 }), await client.incr("n", 2n)];
  const injected: unknown = client;
  if (injected instanceof Client) {
    injected.clientId() satisfies string;
  }
  const deleted = await client.vdel("key", "value", { fencingToken: newest[0], retry: "never" });
  if (deleted.is === "deleted") {
    deleted.version satisfies Hlc | null;
  } else {
    deleted.is satisfies "absent" | "mismatch";
  }
  for await (const key of client.scan("*")) {
    key satisfies Buffer;
  }
  for await (const observation of await client.observe("key", { overflow: { all: 10 } })) {
    observation satisfies Observation;
  }
  for await (const [key, entry] of client.scanEntries("*", { fallback: true })) {
    key satisfies Buffer;
    entry satisfies Entry;
  }
  (await client.capabilities()).observeMatching satisfies boolean;
  const matching: MatchObserver = await client.observeMatching("*", { refresh: null, maxKeys: 10 });
  for await (const observation of matching) {
    observation satisfies MatchObservation;
    if (observation.is === "set" || observation.is === "deleted") {
      observation.key satisfies Buffer;
    } else {
      observation.is satisfies "complete" | "resync" | "resynced";
    }
  }
  await client.observeMatching("*", (observation) => observation.is, { refresh: 1_000 });
  await client.observe("key", { initial: true });
  const mirror: Mirror = await client.mirror("*", { refresh: null, maxKeys: 10, maxBytes: 1_000 });
  await mirror.synced({ timeout: 100 });
  mirror.get("key")?.value satisfies Buffer | undefined;
  mirror.staleSince() satisfies number | null;
  for (const [key, { value }] of mirror.snapshot()) {
    [key, value] satisfies [Buffer, Buffer];
  }
  for await (const event of mirror.changes()) {
    event satisfies MatchObservation;
  }
  const result: number = await client.withLock("lock", async (guard) => (guard.isValid() ? 1 : 0), { wait: 0 });
  client.on("state", (state) => state.is === "reconnecting" && state.reason.code satisfies ErrorCode).unref();
  const [first, second] = await client.setMany({ key: "value", other: new Uint8Array(1) }, { persist: true });
  first satisfies SetOutcome | undefined;
  await client.setMany(new Map([[Buffer.from("key"), "value"]]));
  const deletions: DelOutcome[] = await client.delMany(new Set(["key"]));
  const server: Server = await startServer();
  const other = await connect({ url: server.url, clientId: "x", cleanStart: false });
  void [list, isApplied, result, second, deletions, other, answers, sums];
}

export async function texts(): Promise<void> {
  const client: Client<string> = await connect("mqtt://localhost", { encoding: "utf8" });
  const value: string | undefined = (await client.get("key"))?.value;
  (await client.getMany(["key"]))[0]?.value satisfies string | undefined;
  const guard: Guard<string> = await client.lock("lock");
  guard.name satisfies string;
  for await (const key of client.scan("*")) {
    key satisfies string;
  }
  for await (const [key, entry] of client.scanEntries("*")) {
    [key, entry.value] satisfies [string, string];
  }
  (await client.observeMatching("*")).pattern satisfies string;
  (await client.mirror("*")).get("key")?.value satisfies string | undefined;
  const observation = await (await client.observe("key")).next({ timeout: 100 });
  if (observation?.is === "set") {
    observation.value satisfies string;
  }
  const leader: string | null | undefined = (await client.election("chief").leader())?.value;
  // @ts-expect-error it is text
  value satisfies Buffer;
  void [value, leader];
}

export async function refusals(client: Client): Promise<void> {
  // @ts-expect-error a number is neither a string nor bytes
  await client.set("key", 7);
  // @ts-expect-error an entry may be absent
  (await client.get("key")).value;
  // @ts-expect-error no such condition
  await client.set("key", "value", { condition: "sometimes" });
  // @ts-expect-error a token is an Hlc
  await client.del("key", { fencingToken: "1:0:a" });
  // @ts-expect-error the token of a guard is its own
  await client.withLock("lock", (guard) => guard.set("key", "value", { fencingToken: guard.token }));
  // @ts-expect-error no such setting
  await connect("mqtt://localhost", { clientID: "x" });
  // @ts-expect-error only connect makes clients
  new Client();
  // @ts-expect-error made by the store, or read from a text
  new Hlc("1:0:a");
  const error: unknown = new TimedOutError("late");
  if (error instanceof StateStoreError) {
    // @ts-expect-error no such code
    void (error.code === "Late");
  }
  if (error instanceof TimedOutError) {
    error.code satisfies "TimedOut";
  }
}

interface Rooms {
  readonly hall: string;
  readonly cellar: Uint8Array;
}

export async function pairs(client: Client, rooms: Rooms): Promise<void> {
  await client.setMany(rooms);
  await client.setMany({ hall: "1" });
  await client.setMany(new Map([["hall", "1"]]));
  await client.setMany([["hall", "1"]]);
  await client.setMany([["hall", "1"], ["cellar", new Uint8Array(1)]]);
  // @ts-expect-error a number is neither a string nor bytes
  await client.setMany({ hall: 1 });
  // @ts-expect-error a text has no keys
  await client.setMany("text");
}
