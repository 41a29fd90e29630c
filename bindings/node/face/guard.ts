/** Guards and leads. */
import type {
  CallOptions,
  Data,
  DelOptions,
  DelOutcome,
  Guard as Declared,
  Hlc,
  Holder,
  Leadership as DeclaredLeadership,
  LostReason,
  Release,
  SetOptions,
  SetOutcome,
  StateStoreError,
  TimeoutOptions,
  UpdateOptions,
  UpdateOutcome,
  VdelOutcome,
} from "../index.js";
import { callback, data, delInput, setInput, time, type Options } from "./arguments.js";
import { asyncDispose } from "./disposal.js";
import { LockLostError, direct, failed } from "./errors.js";
import { hlc } from "./hlc.js";
import { inspected, shown, type Inspect, type InspectOptions } from "./inspection.js";
import type { NativeGuard, NativeHolder } from "./native.js";
import type { Operations } from "./operations.js";
import * as results from "./results.js";
import { update, type Change } from "./update.js";

/** For those who end work under a lock. */
export const finish = Symbol("finish");

export class Guard implements Declared {
  readonly name: Buffer;
  readonly holder: Holder;
  readonly token: Hlc;
  readonly #operations: Operations;
  readonly #native: NativeGuard;
  readonly #end = new AbortController();

  /** `name` is as it is shown. */
  constructor(operations: Operations, native: NativeGuard, name: Buffer) {
    this.#operations = operations;
    this.#native = native;
    this.name = name;
    this.holder = results.holder(operations.shown(direct(() => native.holder())) as NativeHolder);
    this.token = direct(() => hlc(native.token()));
    this.#watch();
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Fires the signal at the end, and keeps the guard until then: a lock is not released because its guard is unreachable. */
  #watch(): void {
    const fire = (lostReason: LostReason, cause: unknown) => {
      const message = lostReason === "released" ? "the lock was given back" : `the lock is lost: ${lostReason}`;
      this.#end.abort(new LockLostError(message, { outcome: "not_done", cause }));
    };
    // It fails when the client is closed.
    this.#operations.run("lost", undefined, () => this.#native.watch(), results.lost).then(
      (lostReason) => fire(lostReason, this.reason()),
      (error) => fire("closed", error),
    );
  }

  isValid(): boolean {
    return this.#native.isValid();
  }

  lost(given?: CallOptions): Promise<LostReason> {
    return this.#operations.run("lost", given, () => this.#native.lost(), results.lost);
  }

  lostReason(): LostReason | null {
    return this.#native.lostReason() as LostReason | null;
  }

  reason(): StateStoreError | null {
    return direct(() => results.reason(this.#native.reason()));
  }

  renew(given?: CallOptions): Promise<Hlc> {
    return this.#operations.run("renew", given, () => this.#native.renew(), hlc);
  }

  release(given?: TimeoutOptions): Promise<Release> {
    const begin = (from: Options) => this.#native.release(time(from, "timeout"));
    return this.#operations.run("guard.release", given, begin, results.release);
  }

  leave(given?: CallOptions): Promise<void> {
    return this.#operations.run("leave", given, () => this.#native.leave(), results.nothing);
  }

  set(key: Data, value: Data, given?: Omit<SetOptions, "fencingToken">): Promise<SetOutcome> {
    const begin = (from: Options) => this.#native.set(data("key", key), data("value", value), setInput(from));
    return this.#operations.run("guard.set", given, begin, results.set, undefined, key);
  }

  async update(key: Data, change: Change, given?: UpdateOptions): Promise<UpdateOutcome> {
    callback("change", change);
    const bytes = data("key", key);
    return await update(this.#operations, "guard.update", bytes, (input) => this.#native.update(bytes, input), change, given);
  }

  del(key: Data, given?: Omit<DelOptions, "fencingToken">): Promise<DelOutcome> {
    const begin = (from: Options) => this.#native.del(data("key", key), delInput(from));
    return this.#operations.run("guard.del", given, begin, results.del, undefined, key);
  }

  vdel(key: Data, value: Data, given?: Omit<DelOptions, "fencingToken">): Promise<VdelOutcome> {
    const begin = (from: Options) => this.#native.vdel(data("key", key), data("value", value), delInput(from));
    return this.#operations.run("guard.vdel", given, begin, results.vdel, undefined, key);
  }

  /** For the lead of an election. */
  proclaim(value: Data, given?: CallOptions): Promise<SetOutcome> {
    return this.#operations.run("proclaim", given, () => this.#native.proclaim(data("value", value)), results.set);
  }

  /** Leaves its block: fails if the lock was lost in a block that did not fail itself. */
  async [finish](hasFailed: boolean): Promise<void> {
    // Also when nothing can be asked any more, because the client was closed.
    const loss = direct(() => this.#native.loss());
    if (loss !== null && !hasFailed) {
      throw failed(loss);
    }
    await this.#operations.run("finish", undefined, () => this.#native.finish(hasFailed), results.nothing);
  }

  async [asyncDispose](): Promise<void> {
    await this[finish](false);
  }

  [inspected](_: number, options: InspectOptions, inspect: Inspect): string {
    return shown("Guard", options, inspect, { name: this.name, token: this.token, isValid: this.isValid(), lostReason: this.lostReason() });
  }
}

export class Leadership implements DeclaredLeadership {
  readonly #guard: Guard;

  constructor(guard: Guard) {
    this.#guard = guard;
  }

  get guard(): Declared {
    return this.#guard;
  }

  proclaim(value: Data, given?: CallOptions): Promise<SetOutcome> {
    return this.#guard.proclaim(value, given);
  }

  resign(given?: TimeoutOptions): Promise<Release> {
    return this.#guard.release(given);
  }

  async [asyncDispose](): Promise<void> {
    await this.#guard[finish](false);
  }

  [inspected](_: number, options: InspectOptions, inspect: Inspect): string {
    return shown("Leadership", options, inspect, { guard: this.#guard });
  }
}
