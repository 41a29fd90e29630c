/** Elections. */
import type { CallOptions, Data, Election as Declared, Follower as DeclaredFollower, Leader, Leadership as DeclaredLeadership } from "../index.js";
import { data, options, signal } from "./arguments.js";
import { Follower } from "./follower.js";
import { Guard, Leadership } from "./guard.js";
import type { NativeElection, NativeFeed, NativeGuard } from "./native.js";
import type { Operations } from "./operations.js";
import * as results from "./results.js";

const leaders = results.news(results.leader);

export class Election implements Declared {
  readonly name: Buffer;
  readonly #operations: Operations;
  readonly #native: NativeElection;

  constructor(operations: Operations, native: NativeElection, name: Uint8Array) {
    this.name = Buffer.from(name);
    this.#operations = operations;
    this.#native = native;
  }

  async campaign(value: Data, given?: CallOptions): Promise<DeclaredLeadership> {
    const content = data("value", value);
    return this.#operations.run(
      signal(options(given)),
      () => this.#native.campaign(content),
      (guard) => new Leadership(new Guard(this.#operations, guard as NativeGuard, this.name)),
    );
  }

  async leader(given?: CallOptions): Promise<Leader | null> {
    return this.#operations.run(signal(options(given)), () => this.#native.leader(), results.leader);
  }

  async observe(given?: CallOptions): Promise<DeclaredFollower<Leader | null>> {
    return this.#operations.run(
      signal(options(given)),
      () => this.#native.observe(),
      (feed) => new Follower(this.#operations, feed as NativeFeed, leaders),
    );
  }
}
