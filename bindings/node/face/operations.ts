/** The promises of one client, and their settling in batches. */
import { AsyncResource } from "node:async_hooks";
import type { StateStoreError } from "../index.js";
import { options, signal, type Options } from "./arguments.js";
import { CallSite, CancelledError, failed } from "./errors.js";
import type { Call } from "./known.js";
import type { BeginResult, Failure, NativeClient } from "./native.js";
import { isError, isUint8Array, TextDecoder } from "./realm.js";
import { Signals } from "./signals.js";
import { setImmediate } from "./timers.js";

/** Slots of one result in what `drain` returns. */
const RESULT_SLOTS = 4;

/** Makes a result of the two values that the native half gives. */
export type ResultReader<T> = (a: unknown, b: unknown) => T;

/** Names the bytes of a result in errors about them, by their index if there are several; `list` is where they are then. */
export type Subject = (index?: number, list?: unknown[]) => string;

/** How the operations of a client come out. */
export interface ResultOptions {
  /** Bytes as text. */
  asText: boolean;
  /** Errors with the line of their call, whether it is awaited or not. */
  callStacks: boolean;
}

/** Asks for the new value of an update. */
export type ValueRequest = (operation: number, a: unknown, b: unknown) => void;

/** Observes operations: gets the call and its key, and begins the operation by `begin`. */
export type Instrumentation = <T>(call: Call, key: unknown, begin: () => Promise<T>) => Promise<T>;

/** Details of an operation that few have. */
interface OperationExtras {
  question?: ValueRequest;
  subject?: Subject;
}

interface PendingOperation {
  /** Takes the two values of the native half. */
  resolve(values: [unknown, unknown]): void;
  reject(failure: Failure): void;
  /** Present if it can be given up. */
  signal: AbortSignal | undefined;
  /** Present if it is an update: asked for the new value. */
  question: ValueRequest | undefined;
}

/** UTF-8 that is none is an error, and a byte order mark is a part of the text. */
const UTF_8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const NONE = Object.freeze({});

const CLOSED: Failure = { kind: "Closed", outcome: "unknown", retryable: false, message: "the client was closed", causes: [] };

export class Operations {
  readonly #native: NativeClient;
  /** By their numbers, which the native half reuses. */
  readonly #waiting: (PendingOperation | undefined)[] = [];
  readonly signals = new Signals();
  readonly #drain = () => this.#settle();
  readonly #asText: boolean;
  readonly #callStacks: boolean;
  #isReferenced = true;
  /** A turn fetches results once, however many ask for it. */
  #isScheduled = false;
  /** How often results were fetched. */
  wakeUps = 0;

  /** `create` gets the function that is called when there are results. */
  constructor(create: (ring: () => void) => NativeClient, { asText, callStacks }: ResultOptions) {
    this.#asText = asText;
    this.#callStacks = callStacks;
    this.#native = create(() => {
      // Not at once: a call from another thread is repeated without a pause as long as new results make new calls, and
      // the event loop would do nothing else.
      this.#schedule();
    });
  }

  get native(): NativeClient {
    return this.#native;
  }

  /** Captures the line of a call, without the frames of `callee`, if the client was asked to: it takes longer than the rest of a call. */
  callSite(callee: Function): CallSite | undefined {
    return this.#callStacks ? new CallSite(callee) : undefined;
  }

  /** The native half's values as the caller gets them: with the bytes in them as text, if the client has an encoding. */
  shown(value: unknown, subject: Subject = () => "the result"): unknown {
    if (!this.#asText) {
      return value;
    }
    if (isUint8Array(value)) {
      return text(value, subject());
    }
    return Array.isArray(value) ? value.map((item, index) => this.#item(item, subject, index, value)) : value;
  }

  #item(value: unknown, subject: Subject, index: number, list: unknown[]): unknown {
    return this.shown(value, () => subject(index, list));
  }

  /**
   * Begins an operation and resolves to its result. `begin` gets the options of the call, reads its arguments and begins the
   * operation; an exception of it is a rejection.
   *
   * Calls return this promise itself. Its errors are made, and its results are read, in the context of the caller, so that the stacks of
   * errors name the line of a call that is awaited. `key` is for {@link instrument}.
   */
  async run<T>(
    call: Call,
    given: object | null | undefined,
    begin: (from: Options) => BeginResult,
    read: ResultReader<T>,
    { question, subject }: OperationExtras = NONE,
    _key?: unknown,
  ): Promise<T> {
    const site = this.callSite(this.run);
    let aborting: AbortSignal | undefined;
    try {
      const from = options(call, given);
      aborting = signal(from);
      if (aborting?.aborted) {
        throw cancelled("not_done", aborting);
      }
      const operation = begin(from);
      if (typeof operation !== "number") {
        throw operation;
      }
      // Questions arrive in the context of the event loop; the function of the caller runs in that of its call.
      const asked = question === undefined ? undefined : AsyncResource.bind(question, "statestore.update");
      const [a, b] = await new Promise<[unknown, unknown]>((resolve, reject) => {
        if (aborting !== undefined) {
          this.#watch(aborting, operation);
        }
        this.#waiting[operation] = { resolve, reject, signal: aborting, question: asked };
      });
      return read(this.shown(a, subject), this.shown(b, subject));
    } catch (thrown) {
      if (isError(thrown)) {
        throw site?.mark(thrown) ?? thrown;
      }
      const failure = thrown as Failure;
      const error = failure.kind === "Cancelled" && aborting !== undefined ? cancelled(failure.outcome, aborting) : failed(failure);
      throw site?.mark(error) ?? error;
    }
  }

  /** Has every later operation go through `observe`. Without this call an operation pays nothing for it. */
  instrument(observe: Instrumentation): void {
    const run = this.run.bind(this) as Operations["run"];
    const observed = <T>(
      call: Call,
      given: object | null | undefined,
      begin: (from: Options) => BeginResult,
      read: ResultReader<T>,
      extras?: OperationExtras,
      key?: unknown,
    ): Promise<T> => observe(call, key, () => run(call, given, begin, read, extras));
    this.run = observed;
  }

  #watch(signal: AbortSignal, operation: number): void {
    if (signal.aborted) {
      // While the arguments were read, which may run code of the caller: no event follows.
      this.#native.cancel(operation);
    } else {
      this.signals.add(signal, operation, () => this.#native.cancel(operation));
    }
  }

  #forget(signal: AbortSignal | undefined, operation: number): void {
    if (signal !== undefined) {
      this.signals.delete(signal, operation);
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
    // The numbers of ended operations are free again, and the function of an update may begin an operation under one of them. So
    // the whole batch is taken out before the first result is delivered.
    const batch: (PendingOperation | undefined)[] = [];
    for (let slot = 1; slot < results.length; slot += RESULT_SLOTS) {
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
        this.#give(waiting, results, 1 + index * RESULT_SLOTS);
      }
    }
  }

  /** Delivers one result, or one question. */
  #give(waiting: PendingOperation, results: unknown[], slot: number): void {
    const failure = results[slot + 1] as Failure | true | undefined;
    if (failure === true) {
      waiting.question?.(results[slot] as number, results[slot + 2], results[slot + 3]);
    } else if (failure === undefined) {
      waiting.resolve([results[slot + 2], results[slot + 3]]);
    } else {
      waiting.reject(failure);
    }
  }
}

function text(bytes: Uint8Array, subject: string): string {
  try {
    return UTF_8.decode(bytes);
  } catch (cause) {
    const error = new TypeError(
      `${subject} is not UTF-8, which the encoding of this client asks for; its bytes are in \`bytes\` of this error`,
      { cause },
    );
    throw Object.assign(error, { bytes });
  }
}

export function cancelled(outcome: "not_done" | "unknown", signal: AbortSignal): StateStoreError {
  return new CancelledError("the call was given up through its signal", { outcome, cause: signal.reason });
}
