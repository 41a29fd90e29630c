/** Leases. */
import type { Acquisition, CallOptions, Follower as DeclaredFollower, Holding, Lease as Declared, Release } from "../index.js";
import { options, signal } from "./arguments.js";
import { Follower } from "./follower.js";
import { Guard } from "./guard.js";
import type { NativeFeed, NativeGuard, NativeLease } from "./native.js";
import type { Operations } from "./operations.js";
import * as results from "./results.js";

const holders = results.news(results.holding);

export class Lease implements Declared {
  readonly name: Buffer;
  readonly #operations: Operations;
  readonly #native: NativeLease;

  constructor(operations: Operations, native: NativeLease, name: Uint8Array) {
    this.name = Buffer.from(name);
    this.#operations = operations;
    this.#native = native;
  }

  async acquire(given?: CallOptions): Promise<Acquisition> {
    return this.#operations.run(
      signal(options(given)),
      () => this.#native.acquire(),
      (guard, by): Acquisition =>
        guard === null
          ? { is: "held", holding: results.holding(by) }
          : { is: "acquired", guard: new Guard(this.#operations, guard as NativeGuard, this.name) },
    );
  }

  async release(given?: CallOptions): Promise<Release> {
    return this.#operations.run(signal(options(given)), () => this.#native.release(), results.release);
  }

  async holder(given?: CallOptions): Promise<Holding | null> {
    return this.#operations.run(signal(options(given)), () => this.#native.holder(), results.holding);
  }

  async observe(given?: CallOptions): Promise<DeclaredFollower<Holding | null>> {
    return this.#operations.run(
      signal(options(given)),
      () => this.#native.observe(),
      (feed) => new Follower(this.#operations, feed as NativeFeed, holders),
    );
  }
}
