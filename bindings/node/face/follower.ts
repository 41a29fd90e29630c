/** Feeds as async iterables. */
import type {
  Follower as Declared,
  LostReason,
  MatchObservation,
  MatchObserver as DeclaredMatchObserver,
  Observation,
  Observer as DeclaredObserver,
  StateStoreError,
  TimeoutOptions,
} from "../index.js";
import { quoted, time } from "./arguments.js";
import { asyncDispose } from "./disposal.js";
import { CancelledError, InvalidArgumentError, QueueFullError } from "./errors.js";
import { inspected, shown, type Inspect, type InspectOptions } from "./inspection.js";
import { InterruptibleIterator } from "./iteration.js";
import type { NativeEventStream } from "./native.js";
import type { Operations, ResultReader, Subject } from "./operations.js";
import { isPromise } from "./realm.js";
import * as results from "./results.js";
import { setImmediate, setTimeout } from "./timers.js";

export class Follower<T> implements Declared<T> {
  readonly #operations: Operations;
  readonly #stream: NativeEventStream;
  readonly #read: ResultReader<T | undefined>;
  readonly #subject: Subject | undefined;
  #isOver = false;
  /** A listener gets all items. */
  #hasListener = false;
  /** The signal that ends this. */
  #signal: AbortSignal | undefined;
  #given: StateStoreError | undefined;

  constructor(operations: Operations, stream: NativeEventStream, read: ResultReader<T | undefined>, subject?: Subject) {
    this.#operations = operations;
    this.#stream = stream;
    this.#read = read;
    this.#subject = subject;
  }

  next(given?: TimeoutOptions): Promise<T | undefined> {
    if (this.#hasListener) {
      const error = new InvalidArgumentError("next: this observer has a listener, which gets all observations; observe without a listener to iterate");
      return Promise.reject(error);
    }
    return this.take(given);
  }

  /** The next item for a listener, which gets all from now on. */
  nextForListener(): Promise<T | undefined> {
    this.#hasListener = true;
    return this.take();
  }

  protected async take(given?: TimeoutOptions): Promise<T | undefined> {
    if (this.#isOver) {
      return undefined;
    }
    try {
      const item = await this.#operations.run("next", given, (from) => this.#stream.next(time(from, "timeout")), this.#read, {
        ...(this.#subject && { subject: this.#subject }),
      });
      if (item === undefined) {
        this.close();
      }
      return item;
    } catch (error) {
      // Its client was closed, and it with that.
      if ((error as StateStoreError).code === "Closed") {
        this.close();
        return undefined;
      }
      throw error;
    }
  }

  lostReason(): LostReason | null {
    return this.#stream.lostReason() as LostReason | null;
  }

  error(): StateStoreError | null {
    return this.#given ?? results.reason(this.#stream.error());
  }

  /** Ends this when a signal fires; `for await` throws then. */
  endWith(signal: AbortSignal): void {
    const end = () => {
      if (!this.#isOver) {
        this.#given = new CancelledError("the observation was given up through its signal", { outcome: "not_done", cause: signal.reason });
      }
      this.close();
    };
    if (signal.aborted) {
      end();
    } else if (!this.#isOver) {
      this.#signal = signal;
      this.#operations.signals.add(signal, this, end);
    }
  }

  close(): void {
    this.#isOver = true;
    if (this.#signal !== undefined) {
      this.#operations.signals.delete(this.#signal, this);
      this.#signal = undefined;
    }
    this.#stream.stop();
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<T> {
    const next = async () => {
      const item = await this.next();
      const error = item === undefined ? this.error() : null;
      if (error !== null) {
        throw error;
      }
      return item;
    };
    return new InterruptibleIterator(next, () => this.close());
  }

  async [asyncDispose](): Promise<void> {
    this.close();
  }
}

export class Observer extends Follower<Observation> implements DeclaredObserver {
  readonly key: Buffer;

  /** `key` is as it is shown. */
  constructor(operations: Operations, stream: NativeEventStream, key: Buffer) {
    super(operations, stream, results.observation, () => `the value of ${quoted(key)}`);
    this.key = key;
  }

  [inspected](_: number, options: InspectOptions, inspect: Inspect): string {
    return shown("Observer", options, inspect, { key: this.key, lostReason: this.lostReason() });
  }
}

export class MatchObserver extends Follower<MatchObservation> implements DeclaredMatchObserver {
  readonly pattern: Buffer;

  /** `pattern` is as it is shown. */
  constructor(operations: Operations, stream: NativeEventStream, pattern: Buffer) {
    // The key is before its value.
    const subject: Subject = (index, list) => (index === 1 ? `the value of ${quoted(list?.[0])}` : `a key that matches ${quoted(pattern)}`);
    super(operations, stream, results.matchObservation, subject);
    this.pattern = pattern;
  }

  [inspected](_: number, options: InspectOptions, inspect: Inspect): string {
    return shown("MatchObserver", options, inspect, { pattern: this.pattern, lostReason: this.lostReason() });
  }
}

/** Time until the next look for an item, when too many operations are in progress. */
const QUEUE_FULL_DELAY_MS = 10;

/** The next item, for something that gets all of them. */
export async function nextForListener<T>(follower: Follower<T>): Promise<T | undefined> {
  for (;;) {
    try {
      return await follower.nextForListener();
    } catch (error) {
      if (!(error instanceof QueueFullError)) {
        throw error;
      }
      // It is the caller's other calls that are too many. What happens meanwhile waits in the stream.
      await new Promise<void>((resolve) => void setTimeout(resolve, QUEUE_FULL_DELAY_MS).unref());
    }
  }
}

/** Calls a function with all that comes, one after the other. */
export async function tell<T>(follower: Follower<T>, listener: (item: T) => unknown): Promise<void> {
  for (;;) {
    let item: T | undefined;
    try {
      item = await nextForListener(follower);
    } catch (error) {
      if (!(error instanceof TypeError)) {
        throw error;
      }
      // One that is no text of the client's encoding. Others may follow.
      rethrow(error);
      continue;
    }
    if (item === undefined) {
      break;
    }
    try {
      const returned = listener(item);
      if (isPromise(returned)) {
        await returned.catch((error: unknown) => void Promise.reject(error));
      }
    } catch (error) {
      rethrow(error);
    }
  }
  const error = follower.error();
  // The signal of the caller is no news.
  if (error !== null && error.code !== "Cancelled") {
    // There is nobody who would be told otherwise.
    process.emitWarning(error);
  }
}

/** Throws outside of every handler: an `uncaughtException`, as from any other listener. */
export function rethrow(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}
