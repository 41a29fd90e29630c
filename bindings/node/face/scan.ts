/** Scans as async iterators. */
import { InterruptibleIterator } from "./iteration.js";
import type { BeginResult, NativeScan } from "./native.js";
import type { Operations, Subject } from "./operations.js";
import * as results from "./results.js";

/** Key by key; a page is fetched when the one before is used up. */
export function scan(
  operations: Operations,
  pages: NativeScan,
  signal: AbortSignal | undefined,
  subject: Subject,
): AsyncIterableIterator<Buffer> {
  let keys: Iterator<Buffer> = [][Symbol.iterator]();
  let isOver = false;
  /** The page under way. */
  let fetching: BeginResult | undefined;

  const fetch = async (): Promise<Buffer[] | null> => {
    try {
      return await operations.run("nextPage", { signal }, () => (fetching = pages.nextPage()), results.page, { subject });
    } finally {
      fetching = undefined;
    }
  };

  const next = async (): Promise<Buffer | undefined> => {
    for (;;) {
      const key = keys.next();
      if (key.done !== true) {
        return key.value;
      }
      const page = isOver ? null : await fetch();
      if (page === null || isOver) {
        isOver = true;
        return undefined;
      }
      keys = page[Symbol.iterator]();
    }
  };

  /** Keys are given one after the other, in the order in which they were asked for. */
  let last: Promise<unknown> | undefined;
  let waiting = 0;
  const turn = async (): Promise<Buffer | undefined> => {
    try {
      return await next();
    } finally {
      waiting -= 1;
      if (waiting === 0) {
        last = undefined;
      }
    }
  };
  const nextPageInOrder = (): Promise<Buffer | undefined> => {
    waiting += 1;
    // Nothing else waits for this promise: V8 follows such a chain to the line of the caller.
    const mine = last === undefined ? turn() : last.then(turn, turn);
    last = mine;
    return mine;
  };

  return new InterruptibleIterator(nextPageInOrder, () => {
    isOver = true;
    keys = [][Symbol.iterator]();
    if (typeof fetching === "number") {
      operations.native.cancel(fetching);
    }
  });
}
