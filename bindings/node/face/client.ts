/** The client. */
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import type {
  CallOptions,
  Capabilities,
  Client as Declared,
  ConnectionState,
  Counters,
  Data,
  DelOptions,
  DelOutcome,
  Election as DeclaredElection,
  Entries,
  Entry,
  GetOptions,
  Guard as DeclaredGuard,
  Lease as DeclaredLease,
  LeaseOptions,
  LockOptions,
  MatchObservation,
  MatchObserver as DeclaredMatchObserver,
  Mirror as DeclaredMirror,
  MirrorOptions,
  Observation,
  ObserveMatchingOptions,
  ObserveOptions,
  Observer as DeclaredObserver,
  Pairs,
  ScanEntriesOptions,
  SetOptions,
  SetOutcome,
  TimeoutOptions,
  TransactOptions,
  Transaction as DeclaredTransaction,
  TransactionOutcome,
  UpdateOptions,
  UpdateOutcome,
  VdelOutcome,
} from "../index.js";
import * as args from "./arguments.js";
import type { Options } from "./arguments.js";
import { asyncDispose } from "./disposal.js";
import { Election } from "./election.js";
import { ClosedError, direct, InvalidArgumentError } from "./errors.js";
import { Follower, MatchObserver, Observer, rethrow, tell } from "./follower.js";
import { Guard, finish } from "./guard.js";
import { inspected, shown, type Inspect, type InspectOptions } from "./inspection.js";
import type { Call } from "./known.js";
import { sum, summand } from "./increment.js";
import { Lease } from "./lease.js";
import { Mirror } from "./mirror.js";
import { native, type BeginResult, type NativeClient, type NativeEventStream, type NativeGuard } from "./native.js";
import { Operations, type Instrumentation, type ResultOptions, type Subject } from "./operations.js";
import * as results from "./results.js";
import { scan } from "./scan.js";
import { Transaction } from "./transaction.js";
import { update, type Change } from "./update.js";

/** Events of a client, and those that every emitter may have: `events.once` listens for errors. */
const EVENTS: readonly (string | symbol)[] = ["state", "error", "newListener", "removeListener"];

function known(event: string | symbol): string | symbol {
  if (!EVENTS.includes(event)) {
    throw new TypeError(`a client has no event ${String(event)}; changes of its connection are the event state, and those of a key come from observe`);
  }
  return event;
}

/** Where a client connects to, as far as its settings say. */
export interface ServerAddress {
  /** A name, an address, or the path of a socket. */
  address: string;
  port?: number;
}

/** For `connect`. */
export const open = Symbol("open");
/** For statestore/opentelemetry. */
export const instrument = Symbol("instrument");

export class Client extends EventEmitter implements Declared {
  readonly #operations: Operations;
  readonly #native: NativeClient;
  readonly #server: ServerAddress | undefined;
  #isInstrumented = false;
  #clientId = "";
  #closing: Promise<void> | undefined;
  /** The last state, once there is no further one. */
  #last: ConnectionState | undefined;

  private constructor(operations: Operations, server: ServerAddress | undefined) {
    if (!(operations instanceof Operations)) {
      throw new TypeError("a Client has no public constructor; use connect");
    }
    super();
    this.#operations = operations;
    this.#native = operations.native;
    this.#server = server;
  }

  /** Whether something is one. */
  static is(value: unknown): value is Client {
    return typeof value === "object" && value !== null && #operations in value;
  }

  /** Connects with settings for the native half. */
  static async [open](
    settings: object,
    conduct: ResultOptions,
    signal: AbortSignal | undefined,
    server: ServerAddress | undefined,
  ): Promise<Client> {
    const operations = direct(() => new Operations((ring) => new native.NativeClient(settings, ring), conduct));
    try {
      await operations.run("connect", { signal }, () => operations.native.connect(), results.nothing);
      const client = new Client(operations, server);
      client.#clientId = direct(() => operations.native.clientId());
      await client.#follow();
      return client;
    } catch (error) {
      await operations.run("close", undefined, () => operations.native.close(), results.nothing).catch(() => {});
      operations.end();
      throw error;
    }
  }

  /** Has all later operations observed by what `create` makes. */
  [instrument](create: (server: ServerAddress | undefined) => Instrumentation): void {
    if (this.#isInstrumented) {
      throw new InvalidArgumentError("client is instrumented already");
    }
    this.#operations.instrument(create(this.#server));
    this.#isInstrumented = true;
  }

  /** Tells the listeners of each state after the present one. */
  async #follow(): Promise<void> {
    const states = new Follower<ConnectionState>(this.#operations, direct(() => this.#native.states()), results.state);
    await states.next();
    void tell(states, (state) => this.#tell(state));
  }

  #tell(state: ConnectionState): void {
    if (this.#last?.is === "closed") {
      return;
    }
    if (state.is === "closed") {
      this.#last = state;
    }
    try {
      this.emit("state", state);
    } catch (error) {
      // What a listener throws is not the business of who closes the client.
      rethrow(error);
    }
  }

  get(key: Data, options?: GetOptions): Promise<Entry | null> {
    const begin = (from: Options) =>
      this.#native.get(args.data("key", key), args.time(from, "timeout"), args.flag(from, "remaining"), args.flag(from, "eventual"));
    const subject = () => `the value of ${args.quoted(key)}`;
    return this.#operations.run("get", options, begin, options?.remaining === true ? results.remaining : results.entry, { subject }, key);
  }

  getMany(keys: Iterable<Data>, options?: GetOptions): Promise<Entries> {
    let all: Uint8Array[] = [];
    const begin = (from: Options) => {
      all = args.manyData("keys", keys);
      return this.#native.getMany(all, args.time(from, "timeout"), args.flag(from, "remaining"), args.flag(from, "eventual"));
    };
    // Two slots for each entry.
    const subject = (slot = 0) => `the value of keys[${slot >> 1}], ${args.quoted(all[slot >> 1])},`;
    return this.#operations.run("getMany", options, begin, options?.remaining === true ? results.allRemaining : results.entries, { subject });
  }

  exists(key: Data, options?: Omit<GetOptions, "remaining">): Promise<boolean> {
    const begin = (from: Options) => this.#native.exists(args.data("key", key), args.time(from, "timeout"), args.flag(from, "eventual"));
    return this.#operations.run("exists", options, begin, results.flag, undefined, key);
  }

  ttl(key: Data, options?: Omit<GetOptions, "remaining">): Promise<number | null> {
    const begin = (from: Options) => this.#native.ttl(args.data("key", key), args.time(from, "timeout"), args.flag(from, "eventual"));
    return this.#operations.run("ttl", options, begin, results.timeLeft, undefined, key);
  }

  touch(key: Data, expiresIn: number, options?: Omit<UpdateOptions, "expiresIn">): Promise<boolean> {
    const begin = (from: Options) => {
      const time = args.limit({ expiresIn }, "expiresIn");
      if (time === undefined) {
        throw args.wrongType("expiresIn", "a number of milliseconds", expiresIn);
      }
      return this.#native.touch(args.data("key", key), time, args.updateInput(from));
    };
    return this.#operations.run("touch", options, begin, results.flag, undefined, key);
  }

  incr(key: Data, by?: number, options?: UpdateOptions): Promise<number>;
  incr(key: Data, by: bigint, options?: UpdateOptions): Promise<bigint>;
  async incr(key: Data, by: number | bigint = 1, options?: UpdateOptions): Promise<number | bigint> {
    const [bytes, added, asNumber] = [args.data("key", key), summand(by), typeof by === "number"];
    let result = 0n;
    const change = (old: Entry | null) => {
      result = sum(bytes, old, added, asNumber);
      return String(result);
    };
    await update(this.#operations, "incr", bytes, (input) => this.#native.update(bytes, input), change, options);
    return asNumber ? Number(result) : result;
  }

  ping(options?: TimeoutOptions): Promise<number> {
    return this.#operations.run("ping", options, (from) => this.#native.ping(args.time(from, "timeout")), results.elapsed);
  }

  capabilities(options?: CallOptions): Promise<Capabilities> {
    return this.#operations.run("capabilities", options, () => this.#native.capabilities(), results.capabilities);
  }

  transaction(): DeclaredTransaction {
    return new Transaction();
  }

  transact(transaction: DeclaredTransaction, options?: TransactOptions): Promise<TransactionOutcome> {
    const begin = (from: Options) => {
      if (!Transaction.is(transaction)) {
        throw args.wrongType("transaction", "what transaction() gives", transaction);
      }
      return this.#native.transact(Transaction.operations(transaction), args.transactInput(from));
    };
    return this.#operations.run("transact", options, begin, results.transaction);
  }

  set(key: Data, value: Data, options?: SetOptions): Promise<SetOutcome> {
    const begin = (from: Options) => {
      const [bytes, content] = [args.data("key", key), args.data("value", value)];
      // Reading them costs more than everything else here.
      return options === undefined ? this.#native.set(bytes, content) : this.#native.set(bytes, content, args.setInput(from));
    };
    return this.#operations.run("set", options, begin, results.set, undefined, key);
  }

  del(key: Data, options?: DelOptions): Promise<DelOutcome> {
    const begin = (from: Options) => this.#native.del(args.data("key", key), args.delInput(from));
    return this.#operations.run("del", options, begin, results.del, undefined, key);
  }

  setMany(values: Pairs | object, options?: SetOptions): Promise<SetOutcome[]> {
    const begin = (from: Options) => this.#native.setMany(...args.pairs("values", values), args.setInput(from));
    return this.#operations.run("setMany", options, begin, results.sets);
  }

  delMany(keys: Iterable<Data>, options?: Omit<DelOptions, "ifVersion">): Promise<DelOutcome[]> {
    const begin = (from: Options) => this.#native.delMany(args.manyData("keys", keys), args.delInput(from));
    return this.#operations.run("delMany", options, begin, results.dels);
  }

  vdel(key: Data, value: Data, options?: DelOptions): Promise<VdelOutcome> {
    const begin = (from: Options) => this.#native.vdel(args.data("key", key), args.data("value", value), args.delInput(from));
    return this.#operations.run("vdel", options, begin, results.vdel, undefined, key);
  }

  scan(pattern: Data, options?: TimeoutOptions): AsyncIterableIterator<Buffer> {
    const [bytes, from] = [args.data("pattern", pattern), args.options("scan", options)];
    const timeout = args.time(from, "timeout");
    const pages = direct(() => this.#native.scan(bytes, timeout));
    return scan(this.#operations, pages, results.page, args.signal(from), () => `a key that matches ${args.quoted(bytes)}`);
  }

  scanEntries(pattern: Data, options?: ScanEntriesOptions): AsyncIterableIterator<[key: Buffer, entry: Entry]> {
    const [bytes, from] = [args.data("pattern", pattern), args.options("scanEntries", options)];
    const [timeout, fallback] = [args.time(from, "timeout"), args.flag(from, "fallback")];
    const pages = direct(() => this.#native.scanEntries(bytes, timeout, fallback));
    // Three places for each entry, of which the first is the key.
    const subject: Subject = (place = 0, list = []) =>
      place % 3 === 0 ? `a key that matches ${args.quoted(bytes)}` : `the value of ${args.quoted(list[place - 1])}`;
    return scan(this.#operations, pages, results.entryPage, args.signal(from), subject);
  }

  async observe(
    key: Data,
    listener?: ((observation: Observation) => unknown) | ObserveOptions,
    options?: ObserveOptions,
  ): Promise<DeclaredObserver> {
    const bytes = args.data("key", key);
    const shown = this.#operations.shown(Buffer.from(bytes)) as Buffer;
    const begin = (from: Options) =>
      this.#native.observe(bytes, args.kept(from), args.time(from, "timeout"), args.flag(from, "initial"));
    return await this.#beginObserver("observe", bytes, listener, options, begin, (stream) => new Observer(this.#operations, stream, shown));
  }

  async observeMatching(
    pattern: Data,
    listener?: ((observation: MatchObservation) => unknown) | ObserveMatchingOptions,
    options?: ObserveMatchingOptions,
  ): Promise<DeclaredMatchObserver> {
    const bytes = args.data("pattern", pattern);
    const shown = this.#operations.shown(Buffer.from(bytes)) as Buffer;
    const begin = (from: Options) => this.#native.observeMatching(bytes, args.observeMatchingInput(from));
    const create = (stream: NativeEventStream) => new MatchObserver(this.#operations, stream, shown);
    return await this.#beginObserver("observeMatching", bytes, listener, options, begin, create);
  }

  async mirror(pattern: Data, options?: MirrorOptions): Promise<DeclaredMirror> {
    const bytes = args.data("pattern", pattern);
    const shown = this.#operations.shown(Buffer.from(bytes)) as Buffer;
    const limits = args.mirrorLimits(args.options("mirror", options));
    const begin = (from: Options) => this.#native.observeMatching(bytes, args.observeMatchingInput(from));
    const observer = await this.#openObserver("mirror", bytes, options, begin, (stream) => new MatchObserver(this.#operations, stream, shown));
    const states = new Follower<ConnectionState>(this.#operations, direct(() => this.#native.states()), results.state);
    return new Mirror(observer, states, () => this.state().is === "connected", limits);
  }

  /** Begins an observer. `listener` may be its function, or its options. */
  async #beginObserver<F extends Follower<unknown>>(
    call: Call,
    key: Uint8Array,
    listener: unknown,
    options: object | undefined,
    begin: (from: Options) => BeginResult,
    create: (stream: NativeEventStream) => F,
  ): Promise<F> {
    const isCalled = typeof listener === "function" || options !== undefined;
    if (isCalled) {
      args.callback("listener", listener);
    }
    const observer = await this.#openObserver(call, key, isCalled ? options : (listener as object | undefined), begin, create);
    if (isCalled) {
      void tell(observer, listener as (observation: unknown) => unknown);
    }
    return observer;
  }

  /** Begins an observer, which ends when the signal of the options fires. */
  async #openObserver<F extends Follower<unknown>>(
    call: Call,
    key: Uint8Array,
    options: object | undefined,
    begin: (from: Options) => BeginResult,
    create: (stream: NativeEventStream) => F,
  ): Promise<F> {
    let signal: AbortSignal | undefined;
    const observer = await this.#operations.run(
      call,
      options,
      (from) => {
        signal = args.signal(from);
        return begin(from);
      },
      (stream) => create(stream as NativeEventStream),
      undefined,
      key,
    );
    if (signal !== undefined) {
      observer.endWith(signal);
    }
    return observer;
  }

  async update(key: Data, change: Change, options?: UpdateOptions): Promise<UpdateOutcome> {
    args.callback("change", change);
    const bytes = args.data("key", key);
    return await update(this.#operations, "update", bytes, (input) => this.#native.update(bytes, input), change, options);
  }

  lease(name: Data, options?: Omit<LeaseOptions, "signal">): DeclaredLease {
    const [bytes, input] = [args.data("name", name), args.lockInput(args.options("lease", options))];
    return new Lease(this.#operations, direct(() => this.#native.lease(bytes, input)), bytes);
  }

  lock(name: Data, options?: LockOptions): Promise<DeclaredGuard> {
    return this.#lock("lock", name, options);
  }

  async #lock(call: Call, name: Data, options: LockOptions | undefined): Promise<Guard> {
    const bytes = args.data("name", name);
    // Before it is taken: nobody could give a lock back that he gets no guard of.
    const shown = this.#operations.shown(Buffer.from(bytes)) as Buffer;
    return await this.#operations.run(
      call,
      options,
      (from) => this.#native.lock(bytes, args.lockInput(from)),
      (guard) => new Guard(this.#operations, guard as NativeGuard, shown),
      undefined,
      bytes,
    );
  }

  async withLock<T>(name: Data, work: (guard: DeclaredGuard) => T | Promise<T>, options?: LockOptions): Promise<T> {
    args.callback("work", work);
    const guard = await this.#lock("withLock", name, options);
    let result: T;
    try {
      result = await work(guard);
    } catch (error) {
      // It wins, whatever becomes of the lock.
      await guard[finish](true).catch(() => {});
      throw error;
    }
    await guard[finish](false);
    return result;
  }

  election(name: Data, options?: Omit<LockOptions, "signal">): DeclaredElection {
    const [bytes, input] = [args.data("name", name), args.lockInput(args.options("election", options))];
    return new Election(this.#operations, direct(() => this.#native.election(bytes, input)), bytes);
  }

  clientId(): string {
    return this.#clientId;
  }

  counters(): Counters {
    const counters = direct(() => this.#native.counters()) as unknown as Counters;
    return { ...counters, wakeUps: this.#operations.wakeUps };
  }

  state(): ConnectionState {
    if (this.#last !== undefined) {
      return this.#last;
    }
    const state = direct(() => this.#native.state());
    return results.state(state.is, state) as ConnectionState;
  }

  close(options?: object): Promise<void> {
    let timeout: number | undefined;
    try {
      timeout = args.limit(args.options("close", options), "timeout");
    } catch (error) {
      return Promise.reject(error);
    }
    this.#closing ??= this.#close(timeout);
    return this.#closing;
  }

  async #close(timeout: number | undefined): Promise<void> {
    try {
      await this.#operations.run("close", undefined, () => this.#native.close(timeout), results.nothing);
    } finally {
      this.#operations.end();
    }
    this.#tell({ is: "closed", lostReason: "closed", reason: new ClosedError("the client was closed", { outcome: "not_done" }) });
  }

  override on(event: string | symbol, listener: (...args: any[]) => void): this {
    return super.on(known(event), listener);
  }

  override addListener(event: string | symbol, listener: (...args: any[]) => void): this {
    return super.addListener(known(event), listener);
  }

  override once(event: string | symbol, listener: (...args: any[]) => void): this {
    return super.once(known(event), listener);
  }

  override prependListener(event: string | symbol, listener: (...args: any[]) => void): this {
    return super.prependListener(known(event), listener);
  }

  override prependOnceListener(event: string | symbol, listener: (...args: any[]) => void): this {
    return super.prependOnceListener(known(event), listener);
  }

  toJSON(): { clientId: string; state: string } {
    return { clientId: this.#clientId, state: this.state().is };
  }

  ref(): this {
    this.#operations.keepAlive(true);
    return this;
  }

  unref(): this {
    this.#operations.keepAlive(false);
    return this;
  }

  async [asyncDispose](): Promise<void> {
    await this.close();
  }

  [inspected](_: number, options: InspectOptions, inspect: Inspect): string {
    const { is } = this.state();
    return shown("Client", options, inspect, { clientId: this.#clientId, state: is });
  }
}
