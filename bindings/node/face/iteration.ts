/** Iterators of the package. */
import { asyncDispose } from "./disposal.js";

/**
 * An asynchronous iterator that can be left while it waits. Unlike that of an async generator, its `return` does not wait for the
 * items that were asked for before: it ends their source, and they are `done`.
 */
export class InterruptibleIterator<T> implements AsyncIterableIterator<T> {
  readonly #next: () => Promise<T | undefined>;
  readonly #end: () => void;
  #isOver = false;

  /** `next` gives the next item, or `undefined` at the end. `end` ends the source, also for each `next` that waits. */
  constructor(next: () => Promise<T | undefined>, end: () => void) {
    this.#next = next;
    this.#end = end;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    if (this.#isOver) {
      return { done: true, value: undefined };
    }
    let item: T | undefined;
    try {
      item = await this.#next();
    } catch (error) {
      if (!this.#isOver) {
        this.#leave();
        throw error;
      }
    }
    if (item === undefined) {
      this.#leave();
      return { done: true, value: undefined };
    }
    return { done: false, value: item };
  }

  async return(value?: unknown): Promise<IteratorResult<T, any>> {
    this.#leave();
    return { done: true, value: await value };
  }

  async throw(error?: unknown): Promise<never> {
    this.#leave();
    throw error;
  }

  #leave(): void {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#end();
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [asyncDispose](): Promise<void> {
    this.#leave();
  }
}
