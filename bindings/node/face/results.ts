/** Results as JavaScript has them, from the two values of the native half. */
import type {
  Capabilities,
  ConnectionState,
  DelOutcome,
  Entries,
  Entry,
  Holder,
  Holding,
  Leader,
  LostReason,
  MatchObservation,
  Observation,
  Release,
  SetOutcome,
  StateStoreError,
  TransactionOutcome,
  UpdateOutcome,
  VdelOutcome,
} from "../index.js";
import { failed } from "./errors.js";
import { hlc } from "./hlc.js";
import type { Failure, NativeHolder, NativeState } from "./native.js";

export function nothing(): void {}

export function entry(value: unknown, version: unknown): Entry | null {
  return value === null ? null : { value: value as Buffer, version: hlc(version), expiresIn: "unknown" };
}

/** Two places for each entry. */
export function entries(list: unknown, snapshot: unknown): Entries {
  return inPairs(list, snapshot, entry);
}

export function allRemaining(list: unknown, snapshot: unknown): Entries {
  return inPairs(list, snapshot, remaining);
}

function inPairs(list: unknown, snapshot: unknown, read: typeof entry): Entries {
  const flat = list as unknown[];
  const found: (Entry | null)[] = [];
  for (let place = 0; place < flat.length; place += 2) {
    found.push(read(flat[place], flat[place + 1]));
  }
  // It is not enumerable, so that the entries compare and print as any other list.
  return Object.defineProperty(found, "snapshot", { value: snapshot === true }) as Entries;
}

/** An entry that says what time it has left. */
export function remaining(found: unknown, version: unknown): Entry | null {
  if (found === null) {
    return null;
  }
  const [value, expiresIn] = found as [Buffer, number | "unknown"];
  return { value, version: hlc(version), expiresIn };
}

export function capabilities(list: unknown): Capabilities {
  type Limit = number | null | undefined;
  type List = [boolean, boolean, Limit, boolean, Limit, boolean, boolean];
  const [conditions, remainingTime, transactions, eventual, maxGetKeys, scanValues, observeMatching] = list as List;
  return {
    conditions,
    remainingTime,
    transactions: transactions ?? null,
    eventual,
    maxGetKeys: maxGetKeys ?? null,
    scanValues,
    observeMatching,
  };
}

export function transaction(found: unknown, version: unknown): TransactionOutcome {
  return Array.isArray(found)
    ? { applied: true, versions: found.map(optional) }
    : { applied: false, operation: found as number, version: optional(version) };
}

export function set(applied: unknown, version: unknown): SetOutcome {
  return applied === true ? { applied, version: hlc(version) } : { applied: false, version: optional(version) };
}

export function del(is: unknown, version: unknown): DelOutcome {
  switch (is) {
    case "absent":
      return { is };
    case "mismatch":
      return { is, version: hlc(version) };
    default:
      return { is: "deleted", version: optional(version) };
  }
}

/** Without a condition on the version, a mismatch has none. */
export function vdel(is: unknown, version: unknown): VdelOutcome {
  return is === "mismatch" ? { is, version: optional(version) } : del(is, version);
}

/** The outcomes of several writes, in three places each. If any failed, throws the first failure, which has all outcomes. */
function each<T extends SetOutcome | DelOutcome>(list: unknown, read: (a: unknown, b: unknown) => T): T[] {
  const flat = list as unknown[];
  const outcomes: T[] = [];
  const results: Required<Failure>["results"] = [];
  let first: Failure | undefined;
  for (let place = 0; place < flat.length; place += 3) {
    const failure = flat[place] as Failure | undefined;
    if (failure === undefined) {
      const outcome = read(flat[place + 1], flat[place + 2]);
      outcomes.push(outcome);
      results.push({ outcome });
    } else {
      first ??= failure;
      results.push({ failure });
    }
  }
  if (first !== undefined) {
    throw { ...first, results } satisfies Failure;
  }
  return outcomes;
}

export function sets(list: unknown): SetOutcome[] {
  return each(list, set);
}

export function dels(list: unknown): DelOutcome[] {
  return each(list, del);
}

export function update(is: unknown, version: unknown): UpdateOutcome {
  return is === "applied" ? { is, version: hlc(version) } : { is: "unchanged" };
}

function optional(version: unknown): ReturnType<typeof hlc> | null {
  return version === null || version === undefined ? null : hlc(version);
}

export function page(keys: unknown): Buffer[] | null {
  return keys as Buffer[] | null;
}

/** Three places for each entry. */
export function entryPage(list: unknown): [Buffer, Entry][] | null {
  if (list === null) {
    return null;
  }
  const flat = list as unknown[];
  const found: [Buffer, Entry][] = [];
  for (let place = 0; place < flat.length; place += 3) {
    found.push([flat[place] as Buffer, remaining(flat[place + 1], flat[place + 2]) as Entry]);
  }
  return found;
}

/** `undefined` at the end. */
export function observation(is: unknown, detail: unknown): Observation | undefined {
  switch (is) {
    case null:
      return undefined;
    case "set": {
      const [value, version] = detail as [Buffer, string];
      return { is, value, version: hlc(version) };
    }
    case "deleted":
      return { is, version: optional(detail) };
    case "lagged":
      return { is, count: detail as number };
    default:
      return { is: "resync" };
  }
}

/** `undefined` at the end. */
export function matchObservation(is: unknown, detail: unknown): MatchObservation | undefined {
  switch (is) {
    case null:
      return undefined;
    case "set": {
      const [key, value, version] = detail as [Buffer, Buffer, string];
      return { is, key, value, version: hlc(version) };
    }
    case "deleted": {
      const [key, version] = detail as [Buffer, string | null];
      return { is, key, version: optional(version) };
    }
    case "complete":
    case "resynced":
      return { is };
    default:
      return { is: "resync" };
  }
}

/** `undefined` at the end. */
export function state(is: unknown, state: unknown): ConnectionState | undefined {
  const { reason, lostReason } = (state ?? {}) as NativeState;
  switch (is) {
    case null:
      return undefined;
    case "reconnecting":
      return { is, reason: failed(reason as Failure) };
    case "closed":
      return { is, lostReason: lostReason as LostReason, reason: failed(reason as Failure) };
    default:
      return { is: is as "connecting" | "connected" };
  }
}

export function holder([name, clientId]: NativeHolder): Holder {
  return { name, clientId: clientId ?? null };
}

export function holding(found: unknown): Holding | null {
  if (found === null || found === undefined) {
    return null;
  }
  const [by, version] = found as [NativeHolder, string];
  return { holder: holder(by), version: hlc(version) };
}

export function leader(found: unknown): Leader | null {
  if (found === null || found === undefined) {
    return null;
  }
  const [by, value] = found as [NativeHolder, Buffer | null];
  return { holder: holder(by), value };
}

/** An item of a feed that may tell of a failure, which is thrown as it is; `undefined` at its end. */
export function eventReader<T>(read: (found: unknown) => T): (is: unknown, detail: unknown) => T | undefined {
  return (is, detail) => {
    switch (is) {
      case null:
        return undefined;
      case false:
        throw detail as Failure;
      default:
        return read(detail);
    }
  };
}

export function flag(is: unknown): boolean {
  return is === true;
}

/** In milliseconds; `null` for an absent key. */
export function timeLeft(left: unknown): number | null {
  return left as number | null;
}

export function elapsed(milliseconds: unknown): number {
  return milliseconds as number;
}

export function lost(word: unknown): LostReason {
  return word as LostReason;
}

export function release(is: unknown): Release {
  return is as Release;
}

export function reason(failure: Failure | null | undefined): StateStoreError | null {
  return failure === null || failure === undefined ? null : failed(failure);
}
