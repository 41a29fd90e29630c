/** Changes of a mirror. */
import { Buffer, isUtf8 } from "node:buffer";
import type { MatchObservation, MirrorChanges as Declared, TimeoutOptions } from "../index.js";
import { quoted } from "./arguments.js";
import { asyncDispose } from "./disposal.js";
import { InterruptibleIterator } from "./iteration.js";
import { Waiters } from "./waiters.js";

/** Places of the events that belong to no key. */
const RESYNC = Symbol("resync");
const END_OF_SCAN = Symbol("end of a scan");

/**
 * The string of a key, which no other key has. Text is as it is. Other bytes are behind a surrogate without its pair, which text does not
 * have.
 */
export function nameOf(key: Uint8Array | string): string {
  if (typeof key === "string") {
    return key;
  }
  const bytes = Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  return isUtf8(bytes) ? bytes.toString() : `\ud800${bytes.toString("latin1")}`;
}

export class MirrorChanges implements Declared {
  readonly #maxKeys: number;
  readonly #leave: () => void;
  readonly #waiters: Waiters;
  /** In the order in which they are delivered, each with the number of gaps before it. */
  readonly #pending = new Map<string | symbol, { event: MatchObservation; epoch: number }>();
  /** Number of gaps so far. An event never moves before a gap that it follows. */
  #epoch = 0;
  #isComplete: boolean;
  #isOver = false;
  #isLagging = false;

  /** `isComplete` is whether the reader knows the present state. `leave` is called when the reader wants no more changes. */
  constructor(pattern: Buffer, maxKeys: number, isComplete: boolean, leave: () => void) {
    this.#maxKeys = maxKeys;
    this.#isComplete = isComplete;
    this.#leave = leave;
    this.#waiters = new Waiters(`waiting for changes of the mirror of ${quoted(pattern)}`);
  }

  async next(options?: TimeoutOptions): Promise<MatchObservation | undefined> {
    const { event } = await this.#waiters.wait("next", options, () => this.#take());
    return event;
  }

  isLagging(): boolean {
    return this.#isLagging;
  }

  close(): void {
    this.#pending.clear();
    this.end();
    this.#leave();
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<MatchObservation> {
    return new InterruptibleIterator(
      () => this.next(),
      () => this.close(),
    );
  }

  async [asyncDispose](): Promise<void> {
    this.close();
  }

  /** Adds an event. It replaces the one of its key that waits. */
  push(event: MatchObservation): void {
    if (this.#isOver) {
      return;
    }
    switch (event.is) {
      case "resync":
        // The reader does not need the end of a scan before the gap.
        this.#pending.delete(END_OF_SCAN);
        if (!this.#pending.has(RESYNC)) {
          this.#epoch += 1;
          this.#add(RESYNC, event);
        }
        break;
      case "complete":
      case "resynced":
        this.#pending.delete(END_OF_SCAN);
        this.#add(END_OF_SCAN, event);
        break;
      default: {
        const name = nameOf(event.key);
        const waiting = this.#pending.get(name);
        if (waiting !== undefined && waiting.epoch !== this.#epoch) {
          this.#pending.delete(name);
        }
        this.#add(name, event);
      }
    }
    const others = Number(this.#pending.has(RESYNC)) + Number(this.#pending.has(END_OF_SCAN));
    if (this.#pending.size - others > this.#maxKeys) {
      this.#isLagging = true;
      this.close();
    }
    this.#waiters.wake();
  }

  /** Ends the changes after those that wait. */
  end(): void {
    this.#isOver = true;
    this.#waiters.wake();
  }

  #add(place: string | symbol, event: MatchObservation): void {
    this.#pending.set(place, { event, epoch: this.#epoch });
  }

  /** Takes the next event, or the end, if it is there. */
  #take(): { event: MatchObservation | undefined } | undefined {
    for (const [place, { event }] of this.#pending) {
      this.#pending.delete(place);
      if (place !== END_OF_SCAN) {
        return { event };
      }
      const is = this.#isComplete ? "resynced" : "complete";
      this.#isComplete = true;
      return { event: { is } };
    }
    return this.#isOver ? { event: undefined } : undefined;
  }
}
