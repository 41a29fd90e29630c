/** Scans as async iterators. */
import type { NativeScan } from "./native.js";
import type { Operations } from "./operations.js";
import * as results from "./results.js";

/** Key by key; a page is fetched when the one before is used up. */
export async function* scan(
  operations: Operations,
  pages: NativeScan,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer, void, undefined> {
  for (;;) {
    const page = await operations.run("nextPage", { signal }, () => pages.nextPage(), results.page);
    if (page === null) {
      return;
    }
    yield* page;
  }
}
