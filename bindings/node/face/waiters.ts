/** Calls that wait for something in this process. */
import type { TimeoutOptions } from "../index.js";
import { options, signal, time } from "./arguments.js";
import { TimedOutError } from "./errors.js";
import type { Call } from "./known.js";
import { cancelled } from "./operations.js";
import { clearTimeout, setTimeout } from "./timers.js";

/** Maximum delay of a timer. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** Calls that wait until they find something. */
export class Waiters {
  readonly #action: string;
  /** The functions that look again. */
  readonly #waiting = new Set<() => void>();

  /** `action` begins the messages of errors. */
  constructor(action: string) {
    this.#action = action;
  }

  /** Resolves to the first result of `poll` that is not `undefined`. */
  async wait<T>(call: Call, given: TimeoutOptions | undefined, poll: () => T | undefined): Promise<T> {
    const from = options(call, given);
    const [limit, aborting] = [time(from, "timeout"), signal(from)];
    if (aborting?.aborted) {
      throw cancelled("not_done", aborting);
    }
    const found = poll();
    return found ?? (await this.#later(limit, aborting, poll));
  }

  #later<T>(limit: number | undefined, aborting: AbortSignal | undefined, poll: () => T | undefined): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const look = () => {
        const found = poll();
        if (found !== undefined) {
          leave();
          resolve(found);
        }
      };
      const abort = () => {
        leave();
        reject(cancelled("not_done", aborting as AbortSignal));
      };
      const expire = () => {
        leave();
        reject(new TimedOutError(`${this.#action}: nothing happened within ${limit} ms`, { outcome: "not_done" }));
      };
      const timer = limit === undefined || limit > MAX_DELAY_MS ? undefined : setTimeout(expire, limit);
      const leave = () => {
        this.#waiting.delete(look);
        clearTimeout(timer);
        aborting?.removeEventListener("abort", abort);
      };
      this.#waiting.add(look);
      aborting?.addEventListener("abort", abort);
    });
  }

  /** Lets each call look again, in their order. */
  wake(): void {
    for (const look of [...this.#waiting]) {
      look();
    }
  }
}
