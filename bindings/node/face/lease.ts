/** Leases. */
import { Buffer } from "node:buffer";
import type { Acquisition, CallOptions, Follower as DeclaredFollower, Holding, Lease as Declared, Release } from "../index.js";
import { Follower } from "./follower.js";
import { Guard } from "./guard.js";
import { inspected, shown, type Inspect, type InspectOptions } from "./inspection.js";
import type { NativeEventStream, NativeGuard, NativeLease } from "./native.js";
import type { Operations } from "./operations.js";
import * as results from "./results.js";

const holders = results.eventReader(results.holding);

export class Lease implements Declared {
  readonly name: Buffer;
  readonly #operations: Operations;
  readonly #native: NativeLease;

  constructor(operations: Operations, native: NativeLease, name: Uint8Array) {
    this.name = operations.shown(Buffer.from(name)) as Buffer;
    this.#operations = operations;
    this.#native = native;
  }

  acquire(given?: CallOptions): Promise<Acquisition> {
    return this.#operations.run(
      "acquire",
      given,
      () => this.#native.acquire(),
      (guard, by): Acquisition =>
        guard === null
          ? { is: "held", holding: results.holding(by) }
          : { is: "acquired", guard: new Guard(this.#operations, guard as NativeGuard, this.name) },
    );
  }

  release(given?: CallOptions): Promise<Release> {
    return this.#operations.run("release", given, () => this.#native.release(), results.release);
  }

  holder(given?: CallOptions): Promise<Holding | null> {
    return this.#operations.run("holder", given, () => this.#native.holder(), results.holding);
  }

  observe(given?: CallOptions): Promise<DeclaredFollower<Holding | null>> {
    return this.#operations.run(
      "lease.observe",
      given,
      () => this.#native.observe(),
      (stream) => new Follower(this.#operations, stream as NativeEventStream, holders),
    );
  }

  [inspected](_: number, options: InspectOptions, inspect: Inspect): string {
    return shown("Lease", options, inspect, { name: this.name });
  }
}
