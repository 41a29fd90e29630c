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
 */
/// <reference types="node" />
/// <reference lib="esnext.disposable" />
import type { EventEmitter } from "node:events";

/** Bytes; a string stands for its UTF-8. */
export type Data = string | Uint8Array;

/** What every call takes. */
export interface CallOptions {
  /**
   * Gives the call up: it rejects with {@link CancelledError}, whose `cause` is the signal's reason and whose `outcome` says
   * whether the store may have carried it out.
   */
  signal?: AbortSignal | undefined;
}

export interface TimeoutOptions extends CallOptions {
  /** How long the call may take; the connection's `requestTimeout` unless given. */
  timeout?: number | undefined;
}

/** How to reach the broker and how the client behaves; see docs/connecting.md. */
export interface Settings {
  /** `mqtt://[USER[:PASSWORD]@]HOST[:PORT]`, `mqtts://…` or `unix:///PATH`, with parameters behind `?`. */
  url?: string | URL | undefined;
  /** Reads the environment variables that pods of Azure IoT Operations have. */
  env?: boolean | undefined;
  /** In place of a URL: a name or an address. */
  host?: string | undefined;
  /** 1883, or 8883 with `tls`, unless given. */
  port?: number | undefined;
  /** A random one unless given. */
  clientId?: string | undefined;
  /** Whether the first connection ends a session that the broker still has for this client id (default: true). */
  cleanStart?: boolean | undefined;
  /** How long the broker keeps the session while the client is away, counted in whole seconds (default: 1 h). */
  sessionExpiry?: number | undefined;
  /** After how much silence the connection is checked, counted in whole seconds; 0 is never (default: 60 s). */
  keepAlive?: number | undefined;
  /** How long such a check may take (default: 10 s). */
  pingTimeout?: number | undefined;
  /** How long each attempt to connect may take (default: 10 s). */
  connectTimeout?: number | undefined;
  /** How long a call may take unless it says otherwise (default: 10 s). */
  requestTimeout?: number | undefined;
  /** Most requests that are sent and not yet answered; further ones queue (default: 65,536). */
  maxInFlight?: number | undefined;
  /** Most requests that queue; further ones fail with {@link QueueFullError} (default: 65,536). */
  maxQueued?: number | undefined;
  /** Most bytes of requests that the broker has not acknowledged; further requests queue (default: 64 MiB). */
  maxBufferedBytes?: number | undefined;
  /** The largest packet that the broker may send, in bytes (default: 256 MiB). */
  maxPacketBytes?: number | undefined;
  /** The longest value that is sent, in bytes (default: 256 MiB). */
  maxValueBytes?: number | undefined;
  /** Bounds of the pause between attempts to reconnect (default: 100 ms and 30 s). */
  reconnectDelayMin?: number | undefined;
  reconnectDelayMax?: number | undefined;
  /** How long after a lost connection the client tries to connect again before it gives up for good (default: for ever). */
  reconnectLimit?: number | undefined;
  userName?: string | undefined;
  password?: Data | undefined;
  /** Files are read anew for each connection. */
  passwordFile?: string | undefined;
  /** A Kubernetes service account token. */
  satFile?: string | undefined;
  /** Whether credentials may be sent over plain TCP, where everybody on the way can read them; `false` unless given. */
  allowPlaintextCredentials?: boolean | undefined;
  tls?: boolean | undefined;
  caFile?: string | undefined;
  certFile?: string | undefined;
  keyFile?: string | undefined;
  keyPasswordFile?: string | undefined;
  /** To whom the broker's certificate must be made out; the host name unless given. */
  serverName?: string | undefined;
}

/**
 * Connects, and resolves when the broker has accepted. The first failure rejects; later ones are reasons to try again.
 *
 * A setting beside a URL replaces that of the URL; one that does not exist is a `TypeError`, and so is such an option of a call. An open client keeps the process alive until {@link Client.close} or
 * {@link Client.unref}.
 */
export function connect(url: string | URL, settings?: Omit<Settings, "url" | "env" | "host" | "port"> & CallOptions): Promise<Client>;
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
  get counter(): bigint;
  /** Who made it. */
  get node(): string;
  /** Negative if this one is older than `other`, positive if it is newer. */
  compare(other: Hlc): number;
  equals(other: Hlc): boolean;
  /** The text form as it is sent, zero-padded. */
  toString(): string;
  toJSON(): string;
}

/** Keys and values: an object whose keys are text, a map, or pairs. */
export type Pairs = Readonly<Record<string, Data>> | Iterable<readonly [Data, Data]>;

export interface Entry {
  value: Buffer;
  version: Hlc;
}

/** `version` is that of the key as it is now, whether the set applied or not. */
export interface SetOutcome {
  applied: boolean;
  version: Hlc;
}

export type DelOutcome = { is: "deleted"; version: Hlc | null } | { is: "absent" };
export type VdelOutcome = DelOutcome | { is: "mismatch" };
export type UpdateOutcome = { is: "applied"; version: Hlc } | { is: "unchanged" };

/** Whether a request is sent again when the session was lost before its response came: only if that is safe (default). */
export type Retry = "safe" | "always" | "never";

export interface SetOptions extends TimeoutOptions {
  /** `if_absent` is NX; `if_absent_or_equal` is NEX: also if the key has this value already. */
  condition?: "always" | "if_absent" | "if_absent_or_equal" | undefined;
  /** The key is deleted after this time; at least 1 ms. */
  expiresIn?: number | undefined;
  fencingToken?: Hlc | undefined;
  /** Asks the store to keep the key on disk, for stores that do so only when asked. */
  persist?: boolean | undefined;
  retry?: Retry | undefined;
}

export interface DelOptions extends TimeoutOptions {
  fencingToken?: Hlc | undefined;
  retry?: Retry | undefined;
}

export interface UpdateOptions extends TimeoutOptions {
  expiresIn?: number | undefined;
  persist?: boolean | undefined;
}

export interface ObserveOptions extends TimeoutOptions {
  /**
   * What happens when the key changes faster than observations are taken: only the `latest` is kept (default), or `all`, up to
   * 1,024 or another number, of which the oldest are dropped then and reported as `lagged`.
   */
  overflow?: "latest" | "all" | { all: number } | undefined;
}

/**
 * Why a follower, a guard or a connection is over; the words are the same in every language. `closed`: the user closed the client
 * or the follower. `taken_over`: another connection with the same client id took the session over. `gave_up`: `reconnectLimit` was
 * reached. `refused`: the broker or the store refused the credentials, the subscription or the watch. And of a guard: `released`: the
 * user gave the lock back, or left it to its time. `expired`: its time was over before it could be renewed. `taken`: somebody else has
 * it, or it was found gone at the store.
 */
export type LostReason = "closed" | "taken_over" | "gave_up" | "refused" | "released" | "expired" | "taken";

export type Observation =
  | { is: "set"; value: Buffer; version: Hlc }
  /** The version is missing if the deletion was found out after a reconnect. */
  | { is: "deleted"; version: Hlc | null }
  /** The connection was lost, and changes may have been missed; the present state follows. */
  | { is: "resync" }
  /** So many observations were dropped. */
  | { is: "lagged"; count: number };

/** What follows something. `for await` ends it when it is left, and throws {@link error} if that is why it ended. */
export interface Follower<T> extends AsyncIterable<T>, AsyncDisposable {
  /** What comes next; `undefined` when nothing will come any more. Nothing is taken in advance. */
  next(options?: CallOptions): Promise<T | undefined>;
  /** Why nothing will come any more, once `next` brought `undefined`. */
  lostReason(): LostReason | null;
  /** The same in detail; `null` if it or the client was closed. */
  error(): StateStoreError | null;
  /** Ends it. */
  close(): void;
  [Symbol.asyncIterator](): AsyncIterator<T, void>;
}

export interface Observer extends Follower<Observation> {
  readonly key: Buffer;
}

export interface LeaseOptions extends CallOptions {
  /** How long the lease lasts without renewal: 100 ms to 24 h (default: 10 s). */
  duration?: number | undefined;
  /** When it is renewed: after a `third` of the duration (default), after this time, or only by hand. */
  renewal?: "third" | "manual" | number | undefined;
  /** The name of the holder; a unique one unless given. */
  holder?: Data | undefined;
  /** How long each request may take. */
  timeout?: number | undefined;
  /** After how long an unknown value in the key counts as data, not as somebody's lease (default: 1 h). */
  foreignLeaseMax?: number | undefined;
}

export interface LockOptions extends LeaseOptions {
  /** How long to wait for the lock: for ever unless given; 0 is one attempt. */
  wait?: number | undefined;
}

export interface Holder {
  name: Buffer;
  /** The client id of a holder of this library. */
  clientId: string | null;
}

export interface Holding {
  holder: Holder;
  version: Hlc;
}

export type Acquisition =
  | { is: "acquired"; guard: Guard }
  /** Somebody else has it; `null` if he gave it back before he could be named. */
  | { is: "held"; holding: Holding | null };

export type Release = "released" | "not_held";

/** A lease by its name; nothing is sent before the first call. */
export interface Lease {
  readonly name: Buffer;
  /** One attempt. */
  acquire(options?: CallOptions): Promise<Acquisition>;
  /** Gives back what this lease acquired. */
  release(options?: CallOptions): Promise<Release>;
  holder(options?: CallOptions): Promise<Holding | null>;
  /** Who holds it: at first now, then whenever that changes. */
  observe(options?: CallOptions): Promise<Follower<Holding | null>>;
}

/**
 * Holds a lock, renews it, and knows when it does not hold it any more. `await using` gives it back, and throws a
 * {@link LockLostError} if it was lost before.
 *
 * Its writes carry its fencing token, and fail with {@link LockLostError} once it is not valid.
 */
export interface Guard extends AsyncDisposable {
  readonly name: Buffer;
  readonly holder: Holder;
  readonly token: Hlc;
  /** Fires when the lock is lost or was given back, with a {@link LockLostError} whose cause is the {@link reason}. */
  readonly signal: AbortSignal;
  /** Whether the lock is certainly held at this moment. */
  isValid(): boolean;
  /** Resolves when it is not valid any more, to the reason. */
  lost(options?: CallOptions): Promise<LostReason>;
  /** Why it is not valid any more; `null` while it is. */
  lostReason(): LostReason | null;
  /** What was in the way of its last renewal, or why it was lost, if there is more to say than {@link lostReason} does. */
  reason(): StateStoreError | null;
  /** Renews it now; resolves to the new version of the lock's key. The token stays. */
  renew(options?: CallOptions): Promise<Hlc>;
  /** Gives the lock back, after writes under way. */
  release(options?: CallOptions): Promise<Release>;
  /** Stops renewing, and leaves the lease to end by itself. */
  leave(options?: CallOptions): Promise<void>;
  set(key: Data, value: Data, options?: Omit<SetOptions, "fencingToken">): Promise<SetOutcome>;
  del(key: Data, options?: Omit<DelOptions, "fencingToken">): Promise<DelOutcome>;
  vdel(key: Data, value: Data, options?: Omit<DelOptions, "fencingToken">): Promise<VdelOutcome>;
}

export interface Leader {
  holder: Holder;
  /** What it proclaims; `null` before it has. */
  value: Buffer | null;
}

/** An election by its name; nothing is sent before the first call. */
export interface Election {
  readonly name: Buffer;
  /** Waits for the lead, and proclaims the value. */
  campaign(value: Data, options?: CallOptions): Promise<Leadership>;
  leader(options?: CallOptions): Promise<Leader | null>;
  /** Who leads: at first now, then whenever that or its value changes. */
  observe(options?: CallOptions): Promise<Follower<Leader | null>>;
}

/** The lead. `await using` resigns, and throws a {@link LockLostError} if it was lost before. */
export interface Leadership extends AsyncDisposable {
  readonly guard: Guard;
  proclaim(value: Data, options?: CallOptions): Promise<SetOutcome>;
  resign(options?: CallOptions): Promise<Release>;
}

export type ConnectionState =
  | { is: "connecting" | "connected" }
  | { is: "reconnecting"; reason: StateStoreError }
  | { is: "closed"; lostReason: LostReason; reason: StateStoreError };

/** What a client has seen since it was made. */
export interface Counters {
  /** Requests sent; one that is sent again in a new session counts again. */
  sent: number;
  /** Responses that a request waited for. */
  completed: number;
  timedOut: number;
  /** Requests that the broker refused or that could not be sent. */
  failed: number;
  /** Requests sent again after a reconnect. */
  resent: number;
  reconnects: number;
  /** Newer service account tokens that the broker accepted over a live connection. */
  reauthentications: number;
  /** Reconnects at which the broker had no session any more. */
  sessionsLost: number;
  /** Connections that this client closed because the broker broke the protocol. */
  protocolErrors: number;
  unmatchedResponses: number;
  /** Received timestamps that were too far ahead of the local clock. */
  clockSkews: number;
  notifications: number;
  /** Notifications that were not newer than the one before, or came for a key that is not watched. */
  staleNotifications: number;
  malformedMessages: number;
  /** Requests that were sent and not answered yet. */
  inFlight: number;
  /** Requests that wait to be sent. */
  queued: number;
  /** How often the event loop was called to settle promises, of which each call settles up to 128. Only in Node. */
  wakeUps: number;
}

/** A connection to the store. `await using` closes it. */
export interface Client extends EventEmitter, AsyncDisposable {
  get(key: Data, options?: TimeoutOptions): Promise<Entry | null>;
  /** An entry or `null` for each key, in their order. */
  getMany(keys: Iterable<Data>, options?: TimeoutOptions): Promise<(Entry | null)[]>;
  set(key: Data, value: Data, options?: SetOptions): Promise<SetOutcome>;
  /**
   * What each SET did, in their order. The requests are sent together, in their order; the options are those of each. This is no
   * transaction: each value is stored, or not, by itself. If any fails, the others are carried out nevertheless, and this rejects with
   * the first failure, whose {@link StateStoreError.results} has the outcome or the error of each.
   */
  setMany(values: Pairs, options?: SetOptions): Promise<SetOutcome[]>;
  del(key: Data, options?: DelOptions): Promise<DelOutcome>;
  /** What each DEL did, in their order; what fails is told as by {@link setMany}. */
  delMany(keys: Iterable<Data>, options?: DelOptions): Promise<DelOutcome[]>;
  /** Deletes the key if it has this value. */
  vdel(key: Data, value: Data, options?: DelOptions): Promise<VdelOutcome>;
  /** The keys that match a glob pattern, in no particular order; the time-out is that of each page. */
  scan(pattern: Data, options?: TimeoutOptions): AsyncIterableIterator<Buffer>;
  /** Follows a key from when this resolves. */
  observe(key: Data, options?: ObserveOptions): Promise<Observer>;
  /**
   * The same for a function, which is called with one observation at a time: if it returns a promise, the next call waits for
   * it. What it throws is an `uncaughtException`, a rejection an `unhandledRejection`; the observer goes on. If it ends because of an
   * error, that is a warning of the process.
   */
  observe(key: Data, listener: (observation: Observation) => unknown, options?: ObserveOptions): Promise<Observer>;
  /**
   * Changes a key by what it holds (fenced compare-and-set, see docs/locks.md). `change` may be called several times; it
   * returns the new value, or nothing to leave the key as it is. What it throws ends the update.
   */
  update(
    key: Data,
    change: (old: Entry | null) => Data | null | undefined | Promise<Data | null | undefined>,
    options?: UpdateOptions,
  ): Promise<UpdateOutcome>;
  lease(name: Data, options?: Omit<LeaseOptions, "signal">): Lease;
  /** Waits for a lock. */
  lock(name: Data, options?: LockOptions): Promise<Guard>;
  /**
   * Holds a lock around `work`, and gives it back when that has ended. The error of `work` wins over everything. If the lock was lost
   * meanwhile, this rejects with {@link LockLostError} although `work` succeeded: give its `guard.signal` to what it calls.
   */
  withLock<T>(name: Data, work: (guard: Guard) => T | Promise<T>, options?: LockOptions): Promise<T>;
  election(name: Data, options?: Omit<LockOptions, "signal">): Election;
  clientId(): string;
  counters(): Counters;
  state(): ConnectionState;
  /** Ends the connection and all calls under way, which reject with {@link ClosedError}. Closing again does nothing. */
  close(): Promise<void>;
  /** Keeps the process alive, as it is by default. */
  ref(): this;
  /** Lets the process end with this client open. */
  unref(): this;
  /** Each later state of the connection. */
  on(event: "state", listener: (state: ConnectionState) => void): this;
  once(event: "state", listener: (state: ConnectionState) => void): this;
  off(event: "state", listener: (state: ConnectionState) => void): this;
}

export interface LogRecord {
  level: "ERROR" | "WARN" | "INFO" | "DEBUG" | "TRACE";
  /** The module that logged it. */
  target: string;
  message: string;
}

/**
 * Has a function called with what the library logs in this process, in place of the one before; `null` for none. Records have
 * neither keys nor values nor credentials.
 */
export function logTo(level: LogRecord["level"], listener: (record: LogRecord) => void): void;
export function logTo(level: null): void;

/** `not_done`: it certainly did not happen. `unknown`: it may have. */
export type Outcome = "not_done" | "unknown";

/** What every error of this library is. The classes below, one for each `code`, are the same in every language. */
export class StateStoreError extends Error {
  constructor(message: string, details?: { outcome?: Outcome; retryable?: boolean; cause?: unknown });
  readonly code: ErrorCode;
  readonly outcome: Outcome;
  /** Whether the same call may succeed later without anything being changed by hand. */
  readonly retryable: boolean;
  /** Of {@link Client.setMany} and {@link Client.delMany}: what became of each key, in their order. */
  readonly results?: readonly (SetOutcome | DelOutcome | StateStoreError)[];
}

/** An argument cannot be sent: an empty key, a negative time. It is a `RangeError` too. */
export class InvalidArgumentError extends StateStoreError {}
/** The connection settings contradict each other, or name a file that cannot be used. */
export class InvalidSettingsError extends StateStoreError {}
/** Not in Node: a handle that was freed. */
export class InvalidHandleError extends StateStoreError {}
/** Not in Node: a call that would wait for itself. */
export class WrongThreadError extends StateStoreError {}
/** A bug of this library was met; the client cannot be used any more. */
export class InternalError extends StateStoreError {}
/** The broker could not be reached. */
export class UnreachableError extends StateStoreError {}
/** The broker refused the connection. */
export class ConnectionRefusedError extends StateStoreError {}
/** The broker does not accept the credentials. */
export class NotAuthenticatedError extends StateStoreError {}
/** The session was lost, so no response can come any more. */
export class SessionLostError extends StateStoreError {}
/** The client was closed, or gave up its connection for good. */
export class ClosedError extends StateStoreError {}
/** The broker's TLS certificate is not acceptable. */
export class UntrustedError extends StateStoreError {}
/** Not in Node: a client of the parent process. */
export class ForkedError extends StateStoreError {}
/** No response came in time. */
export class TimedOutError extends StateStoreError {}
/** As many requests wait as may wait. */
export class QueueFullError extends StateStoreError {}
/** The request is larger than the broker or MQTT allows. */
export class TooLargeError extends StateStoreError {}
/** The broker refused to take the request. */
export class RejectedError extends StateStoreError {}
/** No state store listens behind the broker. */
export class NoStoreError extends StateStoreError {}
/** The call was given up through its signal. */
export class CancelledError extends StateStoreError {}
/** The response is not what the protocol defines. */
export class InvalidResponseError extends StateStoreError {}
/** The response says that the remote procedure call itself failed. */
export class RpcError extends StateStoreError {}
/** Somebody else holds the lock, and the time to wait for it is over. */
export class LockHeldError extends StateStoreError {}
/** The lock is lost, so nothing is done in its name any more. */
export class LockLostError extends StateStoreError {}
/** The key of the lock holds something that is not the name of a holder. */
export class NotALockError extends StateStoreError {}
/** The clocks of client and store are too far apart. */
export class TimestampSkewError extends StateStoreError {}
/** The key is protected by a fencing token, and the request has none. */
export class FencingTokenRequiredError extends StateStoreError {}
/** The fencing token is too far in the future. */
export class FencingTokenSkewError extends StateStoreError {}
/** The key is protected by a higher fencing token. */
export class FencingTokenLowerError extends StateStoreError {}
/** The store holds as many keys as it may. */
export class QuotaExceededError extends StateStoreError {}
/** The store does not understand the payload. */
export class RequestSyntaxError extends StateStoreError {}
/** This client may not do this to this key. */
export class NotAuthorizedError extends StateStoreError {}
/** The store does not know the command. */
export class UnknownCommandError extends StateStoreError {}
/** Too few or too many arguments. */
export class WrongArgumentsError extends StateStoreError {}
/** The request has no timestamp. */
export class MissingTimestampError extends StateStoreError {}
/** The timestamp or fencing token is not one. */
export class MalformedTimestampError extends StateStoreError {}
/** The key is empty. */
export class EmptyKeyError extends StateStoreError {}
/** The store refused with a text that this version does not know. */
export class OtherRefusalError extends StateStoreError {}

/** The name of a kind of error. */
export type ErrorCode =
  | "InvalidArgument"
  | "InvalidSettings"
  | "InvalidHandle"
  | "WrongThread"
  | "Internal"
  | "Unreachable"
  | "ConnectionRefused"
  | "NotAuthenticated"
  | "SessionLost"
  | "Closed"
  | "Untrusted"
  | "Forked"
  | "TimedOut"
  | "QueueFull"
  | "TooLarge"
  | "Rejected"
  | "NoStore"
  | "Cancelled"
  | "InvalidResponse"
  | "Rpc"
  | "LockHeld"
  | "LockLost"
  | "NotALock"
  | "TimestampSkew"
  | "FencingTokenRequired"
  | "FencingTokenSkew"
  | "FencingTokenLower"
  | "QuotaExceeded"
  | "Syntax"
  | "NotAuthorized"
  | "UnknownCommand"
  | "WrongArguments"
  | "MissingTimestamp"
  | "MalformedTimestamp"
  | "EmptyKey"
  | "OtherRefusal";
