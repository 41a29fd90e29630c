/** Mirrors: local copies of all entries whose keys match a pattern. */
import { Buffer } from "node:buffer";
import type {
  ConnectionState,
  Data,
  Entry,
  LostReason,
  MatchObservation,
  Mirror as Declared,
  MirrorChanges as DeclaredChanges,
  StateStoreError,
  TimeoutOptions,
} from "../index.js";
import { data, quoted, type MirrorLimits } from "./arguments.js";
import { MirrorChanges, nameOf } from "./changes.js";
import { asyncDispose } from "./disposal.js";
import { ClosedError, TooLargeError } from "./errors.js";
import { nextForListener, tell, type Follower, type MatchObserver } from "./follower.js";
import { inspected, shown, type Inspect, type InspectOptions } from "./inspection.js";
import { Waiters } from "./waiters.js";

interface Item {
  key: Buffer;
  entry: Entry;
  /** Size of the key and the value. */
  bytes: number;
}

export class Mirror implements Declared {
  readonly pattern: Buffer;
  readonly #observer: MatchObserver;
  readonly #states: Follower<ConnectionState>;
  readonly #isConnected: () => boolean;
  readonly #limits: MirrorLimits;
  /** By the strings of their keys. */
  readonly #items = new Map<string, Item>();
  readonly #changes = new Set<MirrorChanges>();
  readonly #waiters: Waiters;
  #bytes = 0;
  #staleSince: number | null = performance.now();
  #isComplete = false;
  #lostReason: LostReason | null = null;
  #error: StateStoreError | TypeError | null = null;

  constructor(observer: MatchObserver, states: Follower<ConnectionState>, isConnected: () => boolean, limits: MirrorLimits) {
    this.pattern = observer.pattern;
    this.#observer = observer;
    this.#states = states;
    this.#isConnected = isConnected;
    this.#limits = limits;
    this.#waiters = new Waiters(`waiting for the mirror of ${quoted(observer.pattern)}`);
    void tell(states, () => this.#checkConnection());
    void this.#follow();
  }

  get(key: Data): Entry | null {
    const name = typeof key === "string" ? key : nameOf(data("key", key));
    return this.#items.get(name)?.entry ?? null;
  }

  has(key: Data): boolean {
    return this.get(key) !== null;
  }

  get size(): number {
    return this.#items.size;
  }

  snapshot(): [key: Buffer, entry: Entry][] {
    return Array.from(this.#items.values(), ({ key, entry }) => [key, entry]);
  }

  changes(): DeclaredChanges {
    const changes: MirrorChanges = new MirrorChanges(this.pattern, 2 * this.#limits.maxKeys, this.#isComplete, () => void this.#changes.delete(changes));
    if (this.#lostReason === null) {
      this.#changes.add(changes);
    } else {
      changes.end();
    }
    return changes;
  }

  async synced(options?: TimeoutOptions): Promise<void> {
    await this.#waiters.wait("synced", options, () => (this.#staleSince === null || this.#lostReason !== null ? true : undefined));
    if (this.#lostReason !== null) {
      throw this.#error ?? new ClosedError(`waiting for the mirror of ${quoted(this.pattern)}: it was closed`, { outcome: "not_done" });
    }
  }

  staleSince(): number | null {
    return this.#staleSince;
  }

  lostReason(): LostReason | null {
    return this.#lostReason;
  }

  error(): StateStoreError | TypeError | null {
    return this.#error;
  }

  close(): void {
    this.#end("closed", null);
  }

  async [asyncDispose](): Promise<void> {
    this.close();
  }

  [inspected](_: number, options: InspectOptions, inspect: Inspect): string {
    return shown("Mirror", options, inspect, { pattern: this.pattern, size: this.size, lostReason: this.#lostReason });
  }

  /** Applies each event, and the end. */
  async #follow(): Promise<void> {
    while (this.#lostReason === null) {
      let event: MatchObservation | undefined;
      try {
        event = await nextForListener(this.#observer);
      } catch (error) {
        this.#end("refused", error as StateStoreError | TypeError);
        return;
      }
      if (event === undefined) {
        this.#end(this.#observer.lostReason() ?? "closed", this.#observer.error());
      } else if (this.#lostReason === null) {
        this.#apply(event);
      }
    }
  }

  #apply(event: MatchObservation): void {
    switch (event.is) {
      case "set": {
        const { key, value, version } = event;
        const bytes = Buffer.byteLength(key) + Buffer.byteLength(value);
        this.#replace(nameOf(key), { key, entry: { value, version, expiresIn: "unknown" }, bytes });
        break;
      }
      case "deleted":
        this.#replace(nameOf(event.key), undefined);
        break;
      case "resync":
        this.#staleSince ??= performance.now();
        break;
      default:
        this.#isComplete = true;
        if (this.#isConnected()) {
          this.#staleSince = null;
          this.#waiters.wake();
        }
    }
    this.#changes.forEach((changes) => changes.push(event));
    if (this.#bytes > this.#limits.maxBytes) {
      const reason = `the entries have ${this.#bytes} bytes; ${this.#limits.maxBytes} are allowed (maxBytes)`;
      this.#end("refused", new TooLargeError(`mirroring ${quoted(this.pattern)}: ${reason}`, { outcome: "not_done" }));
    }
  }

  #replace(name: string, item: Item | undefined): void {
    this.#bytes += (item?.bytes ?? 0) - (this.#items.get(name)?.bytes ?? 0);
    if (item === undefined) {
      this.#items.delete(name);
    } else {
      this.#items.set(name, item);
    }
  }

  /** Checks the state of now: events of the connection and of the keys arrive in no common order. */
  #checkConnection(): void {
    if (!this.#isConnected()) {
      this.#staleSince ??= performance.now();
    }
  }

  #end(lostReason: LostReason, error: StateStoreError | TypeError | null): void {
    if (this.#lostReason !== null) {
      return;
    }
    this.#lostReason = lostReason;
    this.#error = error;
    this.#staleSince ??= performance.now();
    this.#changes.forEach((changes) => changes.end());
    this.#changes.clear();
    this.#waiters.wake();
    this.#observer.close();
    this.#states.close();
  }
}
