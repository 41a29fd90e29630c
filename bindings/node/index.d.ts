/**
 * A client for the state store of an industrial edge: shared keys over MQTT 5.
 *
 * ```ts
 * import { connect } from "statestore";
 *
 * const client = await connect("mqtt://127.0.0.1:1883");
 * await client.set("greeting", "hello");
 * console.log((await client.get("greeting"))?.value.toString());
 * await client.close();
 * ```
 *
 * Times are in milliseconds. Keys, values and names are bytes; strings stand for their UTF-8. An absent key, a condition that
 * is not met and a value that does not match are results, not errors.
 *
 * @module statestore
 */
/// <reference types="node" />
import { EventEmitter } from "node:events";
import type { CancelledError, InvalidArgumentError, StateStoreError } from "./errors.js";
import type { Bytes, CallOptions, Data, Encoding, Settings, TimeoutOptions } from "./settings.js";

/**
 * Connects, and resolves when the broker has accepted. The first failure rejects; later ones are reasons to try again.
 *
 * A setting beside a URL replaces that of the URL; one that does not exist is a `TypeError`, and so is such an option of a call. An open client keeps the process alive until {@link Client.close} or
 * {@link Client.unref}.
 */
export function connect(
  url: string | URL,
  settings: Omit<Settings, "url" | "env" | "host" | "port"> & CallOptions & Encoding,
): Promise<Client<string>>;
export function connect(url: string | URL, settings?: Omit<Settings, "url" | "env" | "host" | "port"> & CallOptions): Promise<Client>;
export function connect(settings: Settings & CallOptions & Encoding): Promise<Client<string>>;
export function connect(settings: Settings & CallOptions): Promise<Client>;

/** A hybrid logical clock value: the version of a key, or a fencing token. */
export class Hlc {
  private constructor();
  /** Reads the text form, `wall:counter:node`. Throws a {@link InvalidArgumentError}. */
  static parse(text: string): Hlc;
  /** Negative if `a` is older than `b`, positive if it is newer; for `sort`. */
  static compare(a: Hlc, b: Hlc): number;
  /** Milliseconds since 1970. */
  get wall(): bigint;
  /** Counter that orders times of the same millisecond. */
  get counter(): bigint;
  /** Id of the node that made it. */
  get node(): string;
  /** The text form as it is sent, zero-padded. `structuredClone` and `postMessage` keep nothing else: read it with {@link parse}. */
  readonly text: string;
  /** Negative if this one is older than `other`, positive if it is newer. */
  compare(other: Hlc): number;
  /** Returns whether both are equal. */
  equals(other: Hlc): boolean;
  /** The text form as it is sent, zero-padded. */
  toString(): string;
  /** Returns the text form. */
  toJSON(): string;
}

/** Keys and values: an object whose keys are text, a map, or pairs. */
export type Pairs = Readonly<Record<string, Data>> | Iterable<readonly [Data, Data]>;

/** A stored value with its version. */
export interface Entry<V extends Bytes = Buffer> {
  /** The value. */
  value: V;
  /** Version of the value. */
  version: Hlc;
  /**
   * Remaining time in milliseconds, counted from the answer of the store; `Infinity` if the key does not expire; `"unknown"` unless `remaining`
   * asked for it. `set` and `update` take the time and `Infinity`, and reject `"unknown"`.
   */
  expiresIn: number | "unknown";
}

/** The entries of several keys, in the order of the keys; `null` for an absent key. */
export interface Entries<V extends Bytes = Buffer> extends Array<Entry<V> | null> {
  /** Whether all keys had these entries at one moment during the call, because the store returned them in one response. Not enumerable. */
  readonly snapshot: boolean;
}

/** `version` is that of the key as it is now, whether the set applied or not; `null` if `ifVersion` found no key. */
export type SetOutcome =
  | {
      applied: true;
      /** Version of the stored value. */
      version: Hlc;
    }
  | {
      applied: false;
      /** Present version of the key; `null` if it is absent. */
      version: Hlc | null;
    };

/** `mismatch`: the key does not have the version of `ifVersion`, but this one. An absent key is `absent`, also with `ifVersion`. */
export type DelOutcome =
  | {
      is: "deleted";
      /** Version of the deletion; `null` if the store does not report it. */
      version: Hlc | null;
    }
  | { is: "absent" }
  | {
      is: "mismatch";
      /** Present version of the key. */
      version: Hlc;
    };
/** `mismatch`: the key holds another value, or is as in {@link DelOutcome}; without `ifVersion` its `version` is `null`. */
export type VdelOutcome =
  | DelOutcome
  | {
      is: "mismatch";
      /** Present version of the key; `null` without `ifVersion`. */
      version: Hlc | null;
    };

/** The optional features of a store. */
export interface Capabilities {
  /** `ifVersion` of {@link Client.set}, {@link Client.del} and {@link Client.vdel}. */
  conditions: boolean;
  /** `remaining` of {@link Client.get} and {@link Client.getMany}. */
  remainingTime: boolean;
  /** Maximum number of operations of a transaction; `null` if there are no transactions. */
  transactions: number | null;
  /** `eventual` of {@link Client.get} and {@link Client.getMany} makes a difference. */
  eventual: boolean;
  /** Maximum number of keys that the store returns in one response to {@link Client.getMany}; `null` if it takes one key at a time. */
  maxGetKeys: number | null;
  /** {@link Client.scanEntries} needs no `fallback`. */
  scanValues: boolean;
  /** {@link Client.observeMatching} watches the pattern at the store, and needs no `refresh`. */
  observeMatching: boolean;
}

/** The versions are those of the changes, `null` for the deletion of an absent key; or that of the key of the first operation whose condition was not met. */
export type TransactionOutcome =
  | {
      applied: true;
      /** Version of each operation, in their order; `null` for the deletion of an absent key. */
      versions: (Hlc | null)[];
    }
  | {
      applied: false;
      /** Index of the first operation whose condition was not met, counted from 0. */
      operation: number;
      /** Present version of the key of that operation; `null` if it is absent. */
      version: Hlc | null;
    };
/** Result of an update. */
export type UpdateOutcome =
  | {
      is: "applied";
      /** Version of the new value. */
      version: Hlc;
    }
  | { is: "unchanged" };

/** Whether a request is sent again when the session was lost before its response came: only if that is safe (default). */
export type Retry = "safe" | "always" | "never";

/** Options of {@link Client.set} and {@link Client.setMany}. */
export interface SetOptions extends TimeoutOptions {
  /**
   * `if_absent` is NX; `if_absent_or_equal` is NEX: also if the key has this value already; `ifVersion`: only if it has this version. On a
   * store without such conditions, the value that had the version is compared, under a fence.
   */
  condition?:
    | "always"
    | "if_absent"
    | "if_absent_or_equal"
    | {
        /** Version that the key must have. */
        ifVersion: Hlc;
      }
    | undefined;
  /** The key is deleted after this time; at least 1 ms. */
  expiresIn?: number | undefined;
  /** Fencing token that protects the key: from now on, writes and deletions need this token or a higher one. */
  fencingToken?: Hlc | undefined;
  /** Asks the store to keep the key on disk, for stores that do so only when asked. */
  persist?: boolean | undefined;
  /**
   * While there is no connection, only the newest value of the key is to wait for one: an older `set` with this option fails with
   * `SupersededError` when a newer one of the same key, with this option too, begins to wait. Give them a `timeout` as long as the
   * network may be away.
   */
  coalesce?: boolean | undefined;
  /** Whether the request is sent again if the session is lost before its response arrives. */
  retry?: Retry | undefined;
}

/** Options of {@link Client.del}, {@link Client.delMany} and {@link Client.vdel}. */
export interface DelOptions extends TimeoutOptions {
  /** Fencing token, required for a key that a fencing token protects: that token or a higher one. */
  fencingToken?: Hlc | undefined;
  /** Version that the key must have. Not every store supports this ({@link Capabilities.conditions}). */
  ifVersion?: Hlc | undefined;
  /** Whether the request is sent again if the session is lost before its response arrives. */
  retry?: Retry | undefined;
}

/** Options of {@link Client.get} and {@link Client.getMany}. */
export interface GetOptions extends TimeoutOptions {
  /** Whether entries say when they expire. Not every store can do that ({@link Capabilities.remainingTime}). */
  remaining?: boolean | undefined;
  /**
   * Whether the answer may be what the key held a moment ago: where several servers share the entries, that saves the one that is
   * asked a round trip to them. A store that makes no difference answers what the key holds.
   */
  eventual?: boolean | undefined;
}

/** Options of {@link Client.scanEntries}. The time-out is that of each page. */
export interface ScanEntriesOptions extends TimeoutOptions {
  /**
   * Whether the values are read by {@link Client.getMany} on a store without {@link Capabilities.scanValues}; the remaining times are
   * `"unknown"` then. Without this option, such a store rejects with {@link UnsupportedError}.
   */
  fallback?: boolean | undefined;
}

/** Options of {@link Client.transact}. */
export interface TransactOptions extends TimeoutOptions {
  /** Asks the store to keep the keys on disk. */
  persist?: boolean | undefined;
  /** Whether the request is sent again if the session is lost before its response arrives. */
  retry?: Retry | undefined;
}

/** Options of {@link Transaction.set}. */
export type TransactionSetOptions = Pick<SetOptions, "condition" | "expiresIn" | "fencingToken">;
/** Options of {@link Transaction.del}. */
export type TransactionDelOptions = Pick<DelOptions, "fencingToken" | "ifVersion">;

/** Several writes, of which {@link Client.transact} executes all or none. Each call returns the transaction, so that you can chain calls. */
export interface Transaction {
  /** Adds a SET. */
  set(key: Data, value: Data, options?: TransactionSetOptions): this;
  /** Adds a DEL. An absent key is no failure without `ifVersion`. */
  del(key: Data, options?: TransactionDelOptions): this;
  /** Number of operations. */
  readonly length: number;
}

/** Options of {@link Client.update} and {@link Guard.update}. */
export interface UpdateOptions extends TimeoutOptions {
  /**
   * Time after which the key expires, at least 100 ms; `Infinity` for never. Without it the key keeps the time that it has left, or does
   * not expire if the store cannot report that time ({@link Capabilities.remainingTime}).
   */
  expiresIn?: number | undefined;
  /** Asks the store to keep the key on disk. */
  persist?: boolean | undefined;
}

/**
 * Computes a new value from the entry; nothing leaves the key as it is. The entry has its remaining time if the store can report it and
 * the call has no `expiresIn`.
 */
export type Change<V extends Bytes = Buffer> = (old: Entry<V> | null) => Data | null | undefined | Promise<Data | null | undefined>;

/** The signal ends the observation too, once it has begun: `for await` rejects with {@link CancelledError} then. */
export interface ObserveOptions extends TimeoutOptions {
  /**
   * Behaviour when the key changes faster than observations are taken: keep only the `latest` (default), or `all`, up to 1,024 or
   * another number. Beyond that number, the oldest are dropped and reported as `lagged`.
   */
  overflow?:
    | "latest"
    | "all"
    | {
        /** Maximum number of observations that are kept. */
        all: number;
      }
    | undefined;
  /** Whether the first observation is the present state of the key: `set`, or `deleted` without a version if the key is absent. */
  initial?: boolean | undefined;
}

/**
 * Options of {@link Client.observeMatching}. The signal ends the observer too, once it has begun: `for await` rejects with
 * {@link CancelledError} then.
 */
export interface ObserveMatchingOptions extends TimeoutOptions {
  /**
   * Interval at which the client scans for new keys on a store without {@link Capabilities.observeMatching} (default: 10 s). With `null`,
   * such a store rejects with {@link UnsupportedError}.
   */
  refresh?: number | null | undefined;
  /**
   * Maximum number of keys (default: 1,000,000). The observer keeps each matching key and its version in memory. With more keys it ends
   * with {@link TooLargeError}.
   */
  maxKeys?: number | undefined;
}

/** Options of {@link Client.mirror}. The signal ends the mirror too, once it has begun, with a {@link CancelledError}. */
export interface MirrorOptions extends ObserveMatchingOptions {
  /** Maximum size of all keys and values in bytes (default: 256 MiB). Beyond that the mirror ends with {@link TooLargeError}. */
  maxBytes?: number | undefined;
}

/**
 * Reason for the end of a follower, a guard or a connection; the words are the same in every language. The last three are of guards alone.
 * - `closed`: The client or the observer was closed, or the runtime that drove the client was shut down.
 * - `taken_over`: Another connection with the same client id took the session over.
 * - `gave_up`: The connection could not be made within `reconnect_limit`, or a `lazy` one within `connect_limit`.
 * - `refused`: The broker or the store refused the credentials, the subscription or the watch.
 * - `released`: The lease was given back, or left to expire.
 * - `expired`: The lease expired before it could be renewed.
 * - `taken`: Another client holds the lease, or the store no longer had it.
 */
export type LostReason = "closed" | "taken_over" | "gave_up" | "refused" | "released" | "expired" | "taken";

/** An event that an observer reports about its key. */
export type Observation<V extends Bytes = Buffer> =
  | {
      is: "set";
      /** The new value. */
      value: V;
      /** Version of the new value. */
      version: Hlc;
    }
  | {
      is: "deleted";
      /** Version of the deletion; `null` if a read found the key absent: after a reconnect, or for `initial`. */
      version: Hlc | null;
    }
  /** The connection was lost, and changes may have been missed; the present state follows. */
  | { is: "resync" }
  | {
      is: "lagged";
      /** Number of dropped observations. */
      count: number;
    };

/**
 * An event that an observer reports about the keys that match its pattern. First comes a `set` for each key that exists, then `complete`,
 * then each later change. After a gap come `resync`, the differences with later changes among them, and `resynced`. A gap that begins
 * before `complete` ends with `complete`.
 */
export type MatchObservation<V extends Bytes = Buffer> =
  | {
      is: "set";
      /** The key. */
      key: V;
      /** The new value. */
      value: V;
      /** Version of the new value. It is higher than that of any earlier event of the key, unless a `resync` lies between. */
      version: Hlc;
    }
  | {
      is: "deleted";
      /** The key. */
      key: V;
      /** Version of the deletion; `null` if a read found the key absent. */
      version: Hlc | null;
    }
  /** The present state was reported. This comes once, also if no key matches. */
  | { is: "complete" }
  /** Changes may have been missed; the differences follow, including the deletions. */
  | { is: "resync" }
  /** The differences since the gap were reported. */
  | { is: "resynced" };

/** A sequence of observations. Leaving `for await` ends it; `for await` throws {@link error} if that ended the sequence. */
export interface Follower<T> extends AsyncIterable<T>, AsyncDisposable {
  /**
   * Returns the next item; `undefined` at the end. Nothing is taken in advance. If no item arrives within a `timeout`, this rejects
   * with {@link TimedOutError}, and no item is lost.
   */
  next(options?: TimeoutOptions): Promise<T | undefined>;
  /** Returns the reason for the end, once `next` has returned `undefined`. */
  lostReason(): LostReason | null;
  /** Returns the error that ended it; `null` if it or the client was closed. */
  error(): StateStoreError | null;
  /** Ends the sequence. */
  close(): void;
  /** Returns an iterator over the items; leaving its loop ends the sequence. */
  [Symbol.asyncIterator](): AsyncIterator<T, void>;
}

/** The observations of one key. */
export interface Observer<V extends Bytes = Buffer> extends Follower<Observation<V>> {
  /** The observed key. */
  readonly key: V;
}

/**
 * The observations of all keys that match a pattern. The newest event of each key waits to be taken, and replaces an older one. If more
 * than 16 MiB wait, they are dropped and read again: `resync`.
 */
export interface MatchObserver<V extends Bytes = Buffer> extends Follower<MatchObservation<V>> {
  /** The observed pattern. */
  readonly pattern: V;
}

/**
 * A local copy of all entries whose keys match a pattern, which follows the store. It continues until you close it or its client. After an
 * end for another reason it keeps its last state, and {@link error} returns the reason.
 *
 * ```ts
 * const gateways = await client.mirror("gateways/*");
 * await gateways.synced();
 * for (const [key, entry] of gateways.snapshot()) {
 *   console.log(`${key} is ${entry.value}`);
 * }
 * console.log("the gateway is present:", gateways.has("gateways/7"));
 * gateways.close();
 * ```
 */
export interface Mirror<V extends Bytes = Buffer> extends AsyncDisposable {
  /** The pattern. */
  readonly pattern: V;
  /** Number of entries. */
  readonly size: number;
  /** Returns the entry of a key; `null` if it is absent. Its remaining time is unknown. No request is sent. */
  get(key: Data): Readonly<Entry<V>> | null;
  /** Returns whether the key exists. */
  has(key: Data): boolean;
  /** Returns all entries as of one moment, in a new array. */
  snapshot(): [key: V, entry: Readonly<Entry<V>>][];
  /** Returns every change from now on. To get the state before too, call {@link snapshot} right after this. */
  changes(): MirrorChanges<V>;
  /**
   * Waits until the mirror has the state of the store: all entries at first, and all differences after a gap. Rejects with the error that
   * ended the mirror, and with {@link ClosedError} after a close. There is no time limit by default.
   */
  synced(options?: TimeoutOptions): Promise<void>;
  /**
   * Returns since when the mirror may differ from the store, as `performance.now()` counts; `null` while it follows every change. It may
   * differ until it is first {@link synced}, while the connection is lost, until the differences after a gap have arrived, and after its
   * end.
   */
  staleSince(): number | null;
  /**
   * Returns the reason why the mirror ended; `null` before. `refused` also means that the entries exceed a limit, or that a key or value is
   * not text of the client's `encoding`.
   */
  lostReason(): LostReason | null;
  /** Returns the error that ended the mirror; `null` before, and if the client or the mirror was closed. */
  error(): StateStoreError | TypeError | null;
  /** Ends the mirror: waiting calls return. The entries remain. */
  close(): void;
}

/**
 * The changes of a mirror, from the moment when this was created. They end with the mirror. At most one event of each key waits: if you read
 * slowly, you get the newest state of each key. The changes end if events of more than twice `maxKeys` keys wait.
 */
export interface MirrorChanges<V extends Bytes = Buffer> extends AsyncIterable<MatchObservation<V>>, AsyncDisposable {
  /**
   * Returns the next event; `undefined` after the last one. If none arrives within a `timeout`, this rejects with {@link TimedOutError}, and
   * no event is lost. There is no time limit by default.
   */
  next(options?: TimeoutOptions): Promise<MatchObservation<V> | undefined>;
  /** Returns whether the changes have ended because too many events waited. */
  isLagging(): boolean;
  /** Ends the changes. */
  close(): void;
  /** Returns an iterator over the events; leaving its loop ends the changes. */
  [Symbol.asyncIterator](): AsyncIterator<MatchObservation<V>, void>;
}

/** Options of {@link Client.lease}, and of the lease behind a lock or an election. */
export interface LeaseOptions extends CallOptions {
  /** Duration of the lease without a renewal: 100 ms to 24 h (default: 10 s). */
  duration?: number | undefined;
  /** Interval of renewals: a `third` of the duration (default), this time, or `manual` for none. */
  renewal?: "third" | "manual" | number | undefined;
  /** The name of the holder, which each attempt makes unique by a suffix; the client id unless given. */
  holder?: Data | undefined;
  /**
   * Holds the lease under exactly the name of the holder, also if it is held under that name already, so that a restarted program resumes
   * its lease. Two running clients that resume one name both hold the lease.
   */
  resume?: boolean | undefined;
  /** Time limit of each request. */
  timeout?: number | undefined;
  /** Age from which an unknown value in the key counts as data, not as a lease (default: 1 h). */
  foreignLeaseMax?: number | undefined;
}

/** Options of {@link Client.lock} and {@link Client.election}. */
export interface LockOptions extends LeaseOptions {
  /** Maximum time to wait for the lock (default: no limit); 0 is one attempt. */
  wait?: number | undefined;
}

/** The holder of a lease. */
export interface Holder<V extends Bytes = Buffer> {
  /** Name under which the lease is held. */
  name: V;
  /** The name that a holder of this library gave itself, or its client id. */
  clientId: string | null;
}

/** The present holder of a lease, and since which version. */
export interface Holding<V extends Bytes = Buffer> {
  /** The holder. */
  holder: Holder<V>;
  /** Version of the lease, from when it was taken or last renewed. */
  version: Hlc;
}

/** Result of an attempt to take a lease. */
export type Acquisition<V extends Bytes = Buffer> =
  | {
      is: "acquired";
      /** The held lease. */
      guard: Guard<V>;
    }
  | {
      is: "held";
      /** The other holder; `null` if the lease was released before the holder could be read. */
      holding: Holding<V> | null;
    };

/** Result of releasing a lease: `released`, or `not_held` if it had ended or another client holds it. */
export type Release = "released" | "not_held";

/** A lease by its name; nothing is sent before the first call. */
export interface Lease<V extends Bytes = Buffer> {
  /** Name of the lease, which is its key. */
  readonly name: V;
  /** Makes one attempt. */
  acquire(options?: CallOptions): Promise<Acquisition<V>>;
  /** Releases the lease that is held under the resumed holder's name, whichever program took it. */
  release(options?: CallOptions): Promise<Release>;
  /** Returns the present holder; `null` if there is none. */
  holder(options?: CallOptions): Promise<Holding<V> | null>;
  /** Follows the holder: at first the present one, then each change. */
  observe(options?: CallOptions): Promise<Follower<Holding<V> | null>>;
}

/**
 * Holds a lock, renews it, and knows when it does not hold it any more. `await using` gives it back, and throws a
 * {@link LockLostError} if it was lost before.
 *
 * Its writes carry its fencing token, and fail with {@link LockLostError} once it is not valid.
 */
export interface Guard<V extends Bytes = Buffer> extends AsyncDisposable {
  /** Name of the lock, which is its key. */
  readonly name: V;
  /** The holder: this client. */
  readonly holder: Holder<V>;
  /** Fencing token of the lock. */
  readonly token: Hlc;
  /** Fires when the lock is lost or was given back, with a {@link LockLostError} whose cause is the {@link reason}. */
  readonly signal: AbortSignal;
  /** Returns whether the lock is certainly held at this moment. */
  isValid(): boolean;
  /** Resolves to the reason when the guard is not valid any more. */
  lost(options?: CallOptions): Promise<LostReason>;
  /** Returns the reason why it is not valid any more; `null` while it is. */
  lostReason(): LostReason | null;
  /** Returns the error of the last failed renewal or of the loss; `null` if it has no details beyond {@link lostReason}. */
  reason(): StateStoreError | null;
  /** Renews the lease now, and resolves to the new version of its key. The token stays the same. */
  renew(options?: CallOptions): Promise<Hlc>;
  /**
   * Releases the lock, after the writes under way. It takes at most the `timeout`, and no longer than the lock is certainly held. Then it
   * rejects with {@link TimedOutError}, and goes on in the background.
   */
  release(options?: TimeoutOptions): Promise<Release>;
  /** Stops renewals, so that the lease expires. */
  leave(options?: CallOptions): Promise<void>;
  /** Stores a value, as {@link Client.set} does. */
  set(key: Data, value: Data, options?: Omit<SetOptions, "fencingToken">): Promise<SetOutcome>;
  /** Changes a key by its present value, as {@link Client.update} does. */
  update(key: Data, change: Change<V>, options?: UpdateOptions): Promise<UpdateOutcome>;
  /** Deletes a key, as {@link Client.del} does. */
  del(key: Data, options?: Omit<DelOptions, "fencingToken">): Promise<DelOutcome>;
  /** Deletes a key if it has this value, as {@link Client.vdel} does. */
  vdel(key: Data, value: Data, options?: Omit<DelOptions, "fencingToken">): Promise<VdelOutcome>;
}

/** The leader of an election. */
export interface Leader<V extends Bytes = Buffer> {
  /** Holder of the election's lock. */
  holder: Holder<V>;
  /** Value that the leader proclaims; `null` before it has proclaimed one. */
  value: V | null;
}

/** An election by its name; nothing is sent before the first call. */
export interface Election<V extends Bytes = Buffer> {
  /** Name of the election, which is the key of its lock. */
  readonly name: V;
  /** Waits until this client leads, and publishes the value. */
  campaign(value: Data, options?: CallOptions): Promise<Leadership<V>>;
  /** Returns the present leader; `null` if there is none. */
  leader(options?: CallOptions): Promise<Leader<V> | null>;
  /** Follows the leader: at first the present one, then each change of the leader or its value. */
  observe(options?: CallOptions): Promise<Follower<Leader<V> | null>>;
}

/** The lead. `await using` resigns, and throws a {@link LockLostError} if it was lost before. */
export interface Leadership<V extends Bytes = Buffer> extends AsyncDisposable {
  /** The held lock of the election. */
  readonly guard: Guard<V>;
  /** Replaces the published value. */
  proclaim(value: Data, options?: CallOptions): Promise<SetOutcome>;
  /** Resigns; the `timeout` is as that of {@link Guard.release}. */
  resign(options?: TimeoutOptions): Promise<Release>;
}

/** State of a client's connection. */
export type ConnectionState =
  | { is: "connecting" | "connected" }
  | {
      is: "reconnecting";
      /** Error with which the connection was lost. */
      reason: StateStoreError;
    }
  | {
      is: "closed";
      /** Reason why the connection has ended. */
      lostReason: LostReason;
      /** Error with which the connection has ended. */
      reason: StateStoreError;
    };

/** Counters of a client since its creation. */
export interface Counters {
  /** Requests sent; one that is sent again in a new session counts again. */
  sent: number;
  /** Responses that a request waited for. */
  completed: number;
  /** Requests that timed out. */
  timedOut: number;
  /** Requests that the broker refused or that could not be sent. */
  failed: number;
  /** Requests that newer ones replaced before they were sent. */
  superseded: number;
  /** Requests sent again after a reconnect. */
  resent: number;
  /** Successful reconnects. */
  reconnects: number;
  /** Newer service account tokens that the broker accepted over a live connection. */
  reauthentications: number;
  /** Reconnects at which the broker had no session any more. */
  sessionsLost: number;
  /** Connections that this client closed because the broker broke the protocol. */
  protocolErrors: number;
  /** Responses that no request waited for. */
  unmatchedResponses: number;
  /** Received timestamps that were too far ahead of the local clock. */
  clockSkews: number;
  /** Notifications of watched keys. */
  notifications: number;
  /** Notifications that were not newer than the one before, or came for a key that is not watched. */
  staleNotifications: number;
  /** Messages that are neither responses nor notifications. */
  malformedMessages: number;
  /** Requests that were sent and not answered yet. */
  inFlight: number;
  /** Requests that wait to be sent. */
  queued: number;
  /** Number of calls of the event loop to settle promises; each settles up to 128. Only in Node. */
  wakeUps: number;
}

/**
 * A connection to the store, from {@link connect}. `await using` closes it. The class is for `instanceof` and as a token of dependency
 * injection.
 */
export class Client<V extends Bytes = Buffer> extends EventEmitter implements AsyncDisposable {
  private constructor();
  /** Reads a key; `null` if it is absent. */
  get(key: Data, options?: GetOptions): Promise<Entry<V> | null>;
  /**
   * Reads several keys and resolves to an entry or `null` for each, in their order. `snapshot` of the result says whether the store
   * returned all of them in one response. This needs {@link Capabilities.maxGetKeys}, and values of 1 MiB together at most. With
   * `remaining` or `eventual`, each key has a request of its own.
   */
  getMany(keys: Iterable<Data>, options?: GetOptions): Promise<Entries<V>>;
  /** Returns whether a key is there. The store sends its value too. */
  exists(key: Data, options?: Omit<GetOptions, "remaining">): Promise<boolean>;
  /**
   * Returns the time that a key has left, in milliseconds; `Infinity` if it does not expire, and `null` if it is absent. The store sends its
   * value too. Not every store can do that ({@link Capabilities.remainingTime}).
   */
  ttl(key: Data, options?: Omit<GetOptions, "remaining">): Promise<number | null>;
  /**
   * Sets the time after which a key expires, at least 100 ms or `Infinity`, and keeps its value; returns `false` if the key is absent. It is an
   * {@link update}, with the same limits on stores without conditions.
   */
  touch(key: Data, expiresIn: number, options?: Omit<UpdateOptions, "expiresIn">): Promise<boolean>;
  /**
   * Adds to the decimal number in a key, 0 if the key is absent, and returns the sum. It is an {@link update}. If the value is no such
   * number, or the sum is not a safe integer, nothing is written and this rejects with {@link InvalidArgumentError}.
   */
  incr(key: Data, by?: number, options?: UpdateOptions): Promise<number>;
  /** The same for numbers of 64 bits. */
  incr(key: Data, by: bigint, options?: UpdateOptions): Promise<bigint>;
  /** Returns the round trip of one request to the store, in milliseconds. It needs no right on any key. */
  ping(options?: TimeoutOptions): Promise<number>;
  /** Writes a key. A condition that is not met is a result: `applied` is false. */
  set(key: Data, value: Data, options?: SetOptions): Promise<SetOutcome>;
  /**
   * Stores several values and resolves to the outcomes in their order. The requests are sent together; the options apply to each. This
   * is not a transaction: each value is stored, or not, by itself. If any fails, the others are still executed, and this rejects with
   * the first failure, whose {@link StateStoreError.results} has the outcome or the error of each.
   */
  setMany(values: Iterable<readonly [Data, Data]>, options?: SetOptions): Promise<SetOutcome[]>;
  /** The same for an object, a map or pairs. */
  setMany(values: Pairs, options?: SetOptions): Promise<SetOutcome[]>;
  /** The same for an object whose type is an interface. */
  setMany<T extends object & { readonly [Key in keyof T]: Data }>(values: T, options?: SetOptions): Promise<SetOutcome[]>;
  /** Deletes a key; an absent key is a result. */
  del(key: Data, options?: DelOptions): Promise<DelOutcome>;
  /** Deletes several keys and resolves to the outcomes in their order; failures are reported as by {@link setMany}. */
  delMany(keys: Iterable<Data>, options?: Omit<DelOptions, "ifVersion">): Promise<DelOutcome[]>;
  /** Deletes the key if it has this value. */
  vdel(key: Data, value: Data, options?: DelOptions): Promise<VdelOutcome>;
  /** Returns the optional features of the store. The client asks once for each connection. */
  capabilities(options?: CallOptions): Promise<Capabilities>;
  /** Several writes for {@link transact}, none so far. Nothing is sent. */
  transaction(): Transaction;
  /**
   * Carries out all operations, in their order, or none. If the store refuses one, {@link StateStoreError.operation} says which, and nothing
   * was done. Not every store has transactions ({@link Capabilities.transactions}).
   */
  transact(transaction: Transaction, options?: TransactOptions): Promise<TransactionOutcome>;
  /** The keys that match a glob pattern, in no particular order; the time-out is that of each page. */
  scan(pattern: Data, options?: TimeoutOptions): AsyncIterableIterator<V>;
  /**
   * The keys that match a glob pattern with their entries, whose remaining times are known. Not every store can do that
   * ({@link Capabilities.scanValues}); `fallback` works on each.
   */
  scanEntries(pattern: Data, options?: ScanEntriesOptions): AsyncIterableIterator<[key: V, entry: Entry<V>]>;
  /** Follows a key from when this resolves. */
  observe(key: Data, options?: ObserveOptions): Promise<Observer<V>>;
  /**
   * The same for a function, which is called with one observation at a time: if it returns a promise, the next call waits for
   * it. An exception of the function is an `uncaughtException`, a rejection an `unhandledRejection`; the observer continues. If an
   * error ends the observer, the process emits a warning.
   */
  observe(key: Data, listener: (observation: Observation<V>) => unknown, options?: ObserveOptions): Promise<Observer<V>>;
  /**
   * Follows all keys that match a glob pattern: first their present state, then each change. {@link MatchObservation} has the order of the
   * events. The observer continues over reconnects.
   *
   * On a store without {@link Capabilities.observeMatching}, the client watches each key and scans for new ones once per `refresh`. A new
   * key is reported up to that much later, and not at all if it was deleted before.
   */
  observeMatching(pattern: Data, options?: ObserveMatchingOptions): Promise<MatchObserver<V>>;
  /** The same for a function, which is called as that of {@link observe}. */
  observeMatching(
    pattern: Data,
    listener: (observation: MatchObservation<V>) => unknown,
    options?: ObserveMatchingOptions,
  ): Promise<MatchObserver<V>>;
  /**
   * Mirrors all entries whose keys match a glob pattern. The mirror is empty at first; {@link Mirror.synced} waits until it has all entries.
   *
   * The mirror follows the store as {@link observeMatching} does, also on stores without that capability. Reads send no request. While the
   * connection is lost they return the last known state, and {@link Mirror.staleSince} returns since when.
   */
  mirror(pattern: Data, options?: MirrorOptions): Promise<Mirror<V>>;
  /**
   * Changes a key by its present value, without a lock. `change` may be called several times; it returns the new value, or nothing to
   * leave the key as it is. An exception of `change` ends the update. The key keeps the time that it has left, unless the options say otherwise.
   *
   * On a store without conditions on versions ({@link Capabilities.conditions}) the key is fenced from then on, and other writes need
   * `update` too. {@link Guard.update} changes a key that a lock protects.
   */
  update(key: Data, change: Change<V>, options?: UpdateOptions): Promise<UpdateOutcome>;
  /** Creates a lease by its name. Nothing is sent. */
  lease(name: Data, options?: Omit<LeaseOptions, "signal">): Lease<V>;
  /** Waits for a lock. */
  lock(name: Data, options?: LockOptions): Promise<Guard<V>>;
  /**
   * Holds a lock around `work`, and gives it back when that has ended. The error of `work` wins over everything. If the lock was lost
   * meanwhile, this rejects with {@link LockLostError} although `work` succeeded: give its `guard.signal` to what it calls.
   */
  withLock<T>(name: Data, work: (guard: Guard<V>) => T | Promise<T>, options?: LockOptions): Promise<T>;
  /** Creates an election by its name. Nothing is sent. */
  election(name: Data, options?: Omit<LockOptions, "signal">): Election<V>;
  /** The MQTT client id. */
  clientId(): string;
  /** Returns the counters of this client. */
  counters(): Counters;
  /** Returns the present state of the connection. */
  state(): ConnectionState;
  /**
   * Finishes the calls under way, for `timeout` at most (5,000 ms unless given), and closes the connection. New calls reject with
   * {@link ClosedError} at once; so do those under way when the time is over, or when there is no connection. Closing again does nothing.
   */
  close(options?: { timeout?: number | undefined }): Promise<void>;
  /** Keeps the process alive, as it is by default. */
  ref(): this;
  /**
   * Lets the process end with this client open, also while calls are under way: a top-level `await` of such a call then ends the process
   * with code 13, as Node does for any promise that nothing can settle. Await the calls before, or call `ref()`.
   */
  unref(): this;
  /** Each later state of the connection. */
  on(event: "state", listener: (state: ConnectionState) => void): this;
  once(event: "state", listener: (state: ConnectionState) => void): this;
  off(event: "state", listener: (state: ConnectionState) => void): this;
  /** Closes the client, as {@link close} does. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A record of the library's log. */
export interface LogRecord {
  /** Severity. */
  level: "ERROR" | "WARN" | "INFO" | "DEBUG" | "TRACE";
  /** The module that logged it. */
  target: string;
  /** Text of the record. */
  message: string;
}

/**
 * Has a function called with what the library logs in this process, in place of the one before; `null` for none. Records have
 * neither keys nor values nor credentials.
 */
export function logTo(level: LogRecord["level"], listener: (record: LogRecord) => void): void;
export function logTo(level: null): void;

export * from "./errors.js";
export type { Bytes, CallOptions, Data, Encoding, Settings, TimeoutOptions } from "./settings.js";
