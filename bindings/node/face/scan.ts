/** Scans as async iterators. */
import { InterruptibleIterator } from "./iteration.js";
import type { BeginResult, NativeScan } from "./native.js";
import type { Operations, ResultReader, Subject } from "./operations.js";

/** Item by item; a page is fetched when the one before is used up. `read` reads a page, which is `null` at the end. */
export function scan<T>(
  operations: Operations,
  pages: NativeScan,
  read: ResultReader<T[] | null>,
  signal: AbortSignal | undefined,
  subject: Subject,
): AsyncIterableIterator<T> {
  let items: Iterator<T> = [][Symbol.iterator]();
  let isOver = false;
  /** The page under way. */
  let fetching: BeginResult | undefined;

  const fetch = async (): Promise<T[] | null> => {
    try {
      return await operations.run("nextPage", { signal }, () => (fetching = pages.nextPage()), read, { subject });
    } finally {
      fetching = undefined;
    }
  };

  const next = async (): Promise<T | undefined> => {
    for (;;) {
      const item = items.next();
      if (item.done !== true) {
        return item.value;
      }
      const page = isOver ? null : await fetch();
      if (page === null || isOver) {
        isOver = true;
        return undefined;
      }
      items = page[Symbol.iterator]();
    }
  };

  /** Items are given one after the other, in the order in which they were asked for. */
  let last: Promise<unknown> | undefined;
  let waiting = 0;
  const turn = async (): Promise<T | undefined> => {
    try {
      return await next();
    } finally {
      waiting -= 1;
      if (waiting === 0) {
        last = undefined;
      }
    }
  };
  const nextInOrder = (): Promise<T | undefined> => {
    waiting += 1;
    // Nothing else waits for this promise: V8 follows such a chain to the line of the caller.
    const mine = last === undefined ? turn() : last.then(turn, turn);
    last = mine;
    return mine;
  };

  return new InterruptibleIterator<T>(nextInOrder, () => {
    isOver = true;
    items = [][Symbol.iterator]();
    if (typeof fetching === "number") {
      operations.native.cancel(fetching);
    }
  });
}
