/** Feeds as async iterables. */
import type { CallOptions, Follower as Declared, Observation, Observer as DeclaredObserver, StateStoreError } from "../index.js";
import { asyncDispose } from "./disposal.js";
import type { NativeFeed } from "./native.js";
import type { Operations, Read } from "./operations.js";
import * as results from "./results.js";

export class Follower<T> implements Declared<T> {
  readonly #operations: Operations;
  readonly #feed: NativeFeed;
  readonly #read: Read<T | undefined>;
  #isOver = false;

  constructor(operations: Operations, feed: NativeFeed, read: Read<T | undefined>) {
    this.#operations = operations;
    this.#feed = feed;
    this.#read = read;
  }

  async next(given?: CallOptions): Promise<T | undefined> {
    if (this.#isOver) {
      return undefined;
    }
    try {
      const item = await this.#operations.run("next", given, () => this.#feed.next(), this.#read);
      this.#isOver ||= item === undefined;
      return item;
    } catch (error) {
      // Its client was closed, and it with that.
      if ((error as StateStoreError).code === "Closed") {
        this.#isOver = true;
        return undefined;
      }
      throw error;
    }
  }

  close(): void {
    this.#isOver = true;
    this.#feed.stop();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    try {
      for (let item = await this.next(); item !== undefined; item = await this.next()) {
        yield item;
      }
    } finally {
      this.close();
    }
  }

  async [asyncDispose](): Promise<void> {
    this.close();
  }
}

export class Observer extends Follower<Observation> implements DeclaredObserver {
  readonly key: Buffer;
  readonly #feed: NativeFeed;

  constructor(operations: Operations, feed: NativeFeed, key: Uint8Array) {
    super(operations, feed, results.observation);
    this.key = Buffer.from(key);
    this.#feed = feed;
  }

  error(): StateStoreError | null {
    return results.reason(this.#feed.error());
  }
}

/** Calls a function with all that comes, one after the other. */
export async function tell<T>(follower: Follower<T>, listener: (item: T) => unknown): Promise<void> {
  for await (const item of follower) {
    try {
      const returned = listener(item);
      if (returned instanceof Promise) {
        await returned.catch((error: unknown) => void Promise.reject(error));
      }
    } catch (error) {
      rethrow(error);
    }
  }
}

/** Throws where nobody catches it: an `uncaughtException`, as from any other listener. */
export function rethrow(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
