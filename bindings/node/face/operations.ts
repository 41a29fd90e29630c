/** The promises of one client, and their settling in batches. */
import type { StateStoreError } from "../index.js";
import { options, signal, type Options } from "./arguments.js";
import { CancelledError, failed } from "./errors.js";
import type { Call } from "./known.js";
import type { Begun, Failure, NativeClient } from "./native.js";
import { setImmediate } from "./timers.js";

/** Slots of one result in what `drain` returns. */
const SLOTS = 4;

/** Makes a result of the two values that the native half gives. */
export type Read<T> = (a: unknown, b: unknown) => T;

interface Waiting {
  resolve(value: unknown): void;
  /** Takes a failure, or what `read` threw. */
  reject(reason: unknown): void;
  read: Read<unknown>;
  /** Present if it can be given up. */
  signal: AbortSignal | undefined;
  /** Present if it is an update: asked for the new value. */
  question: ((operation: number, a: unknown, b: unknown) => void) | undefined;
}

/** UTF-8 that is none is an error, and a byte order mark is a part of the text. */
const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const CLOSED: Failure = { kind: "Closed", outcome: "unknown", retryable: false, message: "the client was closed", causes: [] };

/** Who listens to a signal: one listener for all calls that share it, however many. */
interface Watch {
  operations: Set<number>;
  onAbort: () => void;
}

export class Operations {
  readonly #native: NativeClient;
  /** By their numbers, which the native half gives anew when they are free. */
  readonly #waiting: (Waiting | undefined)[] = [];
  readonly #watches = new Map<AbortSignal, Watch>();
  readonly #drain = () => this.#settle();
  readonly #asText: boolean;
  #isReferenced = true;
  /** A turn fetches results once, however many ask for it. */
  #isScheduled = false;
  /** How often results were fetched. */
  wakeUps = 0;

  /** `create` gets the function that is called when there are results. Bytes come out as text if that is asked for. */
  constructor(create: (ring: () => void) => NativeClient, asText: boolean) {
    this.#asText = asText;
    this.#native = create(() => {
      // Not at once: a call from another thread is repeated without a pause as long as new results make new calls, and
      // the event loop would do nothing else.
      this.#schedule();
    });
  }

  get native(): NativeClient {
    return this.#native;
  }

  /** What the caller gets of the native half's values: the bytes in them as text, if the client has an encoding. */
  shown(value: unknown): unknown {
    if (!this.#asText) {
      return value;
    }
    if (value instanceof Uint8Array) {
      return text(value);
    }
    return Array.isArray(value) ? value.map((item) => this.shown(item)) : value;
  }

  /**
   * What a call brings. `begin` gets its options, reads its arguments and begins its operation; what it throws is a rejection.
   *
   * Calls give this promise as it is: errors are made here, where the caller waits, so that their stack names the caller.
   */
  async run<T>(
    call: Call,
    given: object | null | undefined,
    begin: (from: Options) => Begun,
    read: Read<T>,
    question?: (operation: number, a: unknown, b: unknown) => void,
  ): Promise<T> {
    const from = options(call, given);
    const aborting = signal(from);
    if (aborting?.aborted) {
      throw cancelled("not_done", aborting);
    }
    const operation = begin(from);
    if (typeof operation !== "number") {
      throw failed(operation);
    }
    try {
      return await new Promise<T>((resolve, reject) => {
        if (aborting !== undefined) {
          this.#watch(aborting, operation);
        }
        this.#waiting[operation] = { resolve: resolve as Waiting["resolve"], reject, read, signal: aborting, question };
      });
    } catch (thrown) {
      if (thrown instanceof Error) {
        throw thrown;
      }
      const failure = thrown as Failure;
      throw failure.kind === "Cancelled" && aborting !== undefined ? cancelled(failure.outcome, aborting) : failed(failure);
    }
  }

  #watch(signal: AbortSignal, operation: number): void {
    if (signal.aborted) {
      // While the arguments were read, which may run code of the caller: it is not told any more.
      this.#native.cancel(operation);
      return;
    }
    let watch = this.#watches.get(signal);
    if (watch === undefined) {
      const operations = new Set<number>();
      watch = { operations, onAbort: () => operations.forEach((operation) => this.#native.cancel(operation)) };
      this.#watches.set(signal, watch);
      signal.addEventListener("abort", watch.onAbort, { once: true });
    }
    watch.operations.add(operation);
  }

  #forget(signal: AbortSignal | undefined, operation: number): void {
    const watch = signal && this.#watches.get(signal);
    if (watch?.operations.delete(operation) && watch.operations.size === 0) {
      this.#watches.delete(signal as AbortSignal);
      signal?.removeEventListener("abort", watch.onAbort);
    }
  }

  /** Whether results keep the process alive. */
  keepAlive(yes: boolean): void {
    this.#isReferenced = yes;
    this.#native.keepAlive(yes);
  }

  /** Rejects what still waits, and lets go of the event loop. */
  end(): void {
    this.#native.release();
    for (const [operation, waiting] of this.#waiting.splice(0).entries()) {
      if (waiting !== undefined) {
        this.#forget(waiting.signal, operation);
        waiting.reject(CLOSED);
      }
    }
  }

  #schedule(): void {
    if (this.#isScheduled) {
      return;
    }
    this.#isScheduled = true;
    const immediate = setImmediate(this.#drain);
    if (!this.#isReferenced) {
      immediate.unref();
    }
  }

  #settle(): void {
    this.#isScheduled = false;
    this.wakeUps += 1;
    const results = this.#native.drain();
    if (results[0] === true) {
      this.#schedule();
    }
    // The numbers of what has ended are free again, and reading a result may begin an operation, as that of a lock does, under one
    // of them. So all who wait are taken out before anything is read.
    const batch: (Waiting | undefined)[] = [];
    for (let slot = 1; slot < results.length; slot += SLOTS) {
      const operation = results[slot] as number;
      const waiting = this.#waiting[operation];
      batch.push(waiting);
      if (waiting !== undefined && results[slot + 1] !== true) {
        this.#waiting[operation] = undefined;
        this.#forget(waiting.signal, operation);
      }
    }
    for (const [index, waiting] of batch.entries()) {
      if (waiting !== undefined) {
        this.#give(waiting, results, 1 + index * SLOTS);
      }
    }
  }

  /** Gives one result, or one question, to who waits for it. */
  #give(waiting: Waiting, results: unknown[], slot: number): void {
    const failure = results[slot + 1] as Failure | true | undefined;
    if (failure === true) {
      waiting.question?.(results[slot] as number, results[slot + 2], results[slot + 3]);
    } else if (failure === undefined) {
      try {
        waiting.resolve(waiting.read(this.shown(results[slot + 2]), this.shown(results[slot + 3])));
      } catch (error) {
        waiting.reject(error);
      }
    } else {
      waiting.reject(failure);
    }
  }
}

function text(bytes: Uint8Array): string {
  try {
    return UTF_8.decode(bytes);
  } catch (cause) {
    const error = new TypeError("what the store gave is not UTF-8, which the encoding of this client asks for; its bytes are in `bytes`", { cause });
    throw Object.assign(error, { bytes });
  }
}

function cancelled(outcome: "not_done" | "unknown", signal: AbortSignal): StateStoreError {
  return new CancelledError("the call was given up through its signal", { outcome, cause: signal.reason });
}
