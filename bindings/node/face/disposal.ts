/** `Symbol.asyncDispose`; where there is none, there is no `await using` either, and nobody looks for it. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol("Symbol.asyncDispose") as typeof Symbol.asyncDispose);
