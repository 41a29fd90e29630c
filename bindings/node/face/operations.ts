/** The promises of one client, and their settling in batches. */
import type { StateStoreError } from "../index.js";
import { CancelledError, ClosedError, failed } from "./errors.js";
import type { Begun, Failure, NativeClient } from "./native.js";

/** Slots of one result in what `drain` returns. */
const SLOTS = 4;

/** Makes a result of the two values that the native half gives. */
export type Read<T> = (a: unknown, b: unknown) => T;

interface Waiting {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
  read: Read<unknown>;
  /** Present if it can be given up. */
  watch: Watch | undefined;
  /** Present if it is an update: asked for the new value. */
  question: ((operation: number, a: unknown, b: unknown) => void) | undefined;
}

interface Watch {
  signal: AbortSignal;
  onAbort: () => void;
}

export class Operations {
  readonly #native: NativeClient;
  /** By their numbers, which the native half gives anew when they are free. */
  readonly #waiting: (Waiting | undefined)[] = [];
  readonly #drain = () => this.#settle();
  #isReferenced = true;
  wakeUps = 0;

  /** `create` gets the function that is called when there are results. */
  constructor(create: (ring: () => void) => NativeClient) {
    this.#native = create(() => {
      this.wakeUps += 1;
      // Not at once: a call from another thread is repeated without a pause as long as new results make new calls, and
      // the event loop would do nothing else.
      this.#schedule();
    });
  }

  get native(): NativeClient {
    return this.#native;
  }

  /** A promise for what `begin` begins. */
  run<T>(
    signal: AbortSignal | undefined,
    begin: () => Begun,
    read: Read<T>,
    question?: (operation: number, a: unknown, b: unknown) => void,
  ): Promise<T> {
    if (signal?.aborted) {
      return Promise.reject(cancelled("not_done", signal));
    }
    const operation = begin();
    if (typeof operation !== "number") {
      return Promise.reject(failed(operation));
    }
    return new Promise((resolve, reject) => {
      const watch = signal === undefined ? undefined : this.#watch(signal, operation);
      this.#waiting[operation] = { resolve: resolve as Waiting["resolve"], reject, read, watch, question };
    });
  }

  #watch(signal: AbortSignal, operation: number): Watch {
    const onAbort = () => this.#native.cancel(operation);
    signal.addEventListener("abort", onAbort, { once: true });
    return { signal, onAbort };
  }

  /** Whether results keep the process alive. */
  keepAlive(yes: boolean): void {
    this.#isReferenced = yes;
    this.#native.keepAlive(yes);
  }

  /** Rejects what still waits, and lets go of the event loop. */
  end(): void {
    this.#native.release();
    for (const waiting of this.#waiting.splice(0)) {
      if (waiting !== undefined) {
        forget(waiting);
        waiting.reject(new ClosedError("the client was closed", { outcome: "unknown" }));
      }
    }
  }

  #schedule(): void {
    const immediate = setImmediate(this.#drain);
    if (!this.#isReferenced) {
      immediate.unref();
    }
  }

  #settle(): void {
    const results = this.#native.drain();
    if (results[0] === true) {
      this.#schedule();
    }
    for (let slot = 1; slot < results.length; slot += SLOTS) {
      const operation = results[slot] as number;
      const failure = results[slot + 1] as Failure | true | undefined;
      const waiting = this.#waiting[operation];
      if (waiting === undefined) {
        continue;
      }
      if (failure === true) {
        waiting.question?.(operation, results[slot + 2], results[slot + 3]);
        continue;
      }
      this.#waiting[operation] = undefined;
      forget(waiting);
      if (failure === undefined) {
        try {
          waiting.resolve(waiting.read(results[slot + 2], results[slot + 3]));
        } catch (error) {
          waiting.reject(error);
        }
      } else if (failure.kind === "Cancelled" && waiting.watch !== undefined) {
        waiting.reject(cancelled(failure.outcome, waiting.watch.signal));
      } else {
        waiting.reject(failed(failure));
      }
    }
  }
}

function forget(waiting: Waiting): void {
  const { watch } = waiting;
  watch?.signal.removeEventListener("abort", watch.onAbort);
}

function cancelled(outcome: "not_done" | "unknown", signal: AbortSignal): StateStoreError {
  return new CancelledError("the call was given up through its signal", { outcome, cause: signal.reason });
}
