/** Elections. */
import { Buffer } from "node:buffer";
import type { CallOptions, Data, Election as Declared, Follower as DeclaredFollower, Leader, Leadership as DeclaredLeadership } from "../index.js";
import { data } from "./arguments.js";
import { Follower } from "./follower.js";
import { Guard, Leadership } from "./guard.js";
import { inspected, shown, type Inspect, type InspectOptions } from "./inspection.js";
import type { NativeElection, NativeEventStream, NativeGuard } from "./native.js";
import type { Operations } from "./operations.js";
import * as results from "./results.js";

const leaders = results.eventReader(results.leader);

export class Election implements Declared {
  readonly name: Buffer;
  readonly #operations: Operations;
  readonly #native: NativeElection;

  constructor(operations: Operations, native: NativeElection, name: Uint8Array) {
    this.name = operations.shown(Buffer.from(name)) as Buffer;
    this.#operations = operations;
    this.#native = native;
  }

  campaign(value: Data, given?: CallOptions): Promise<DeclaredLeadership> {
    return this.#operations.run(
      "campaign",
      given,
      () => this.#native.campaign(data("value", value)),
      (guard) => new Leadership(new Guard(this.#operations, guard as NativeGuard, this.name)),
    );
  }

  leader(given?: CallOptions): Promise<Leader | null> {
    return this.#operations.run("leader", given, () => this.#native.leader(), results.leader);
  }

  observe(given?: CallOptions): Promise<DeclaredFollower<Leader | null>> {
    return this.#operations.run(
      "election.observe",
      given,
      () => this.#native.observe(),
      (stream) => new Follower(this.#operations, stream as NativeEventStream, leaders),
    );
  }

  [inspected](_: number, options: InspectOptions, inspect: Inspect): string {
    return shown("Election", options, inspect, { name: this.name });
  }
}
