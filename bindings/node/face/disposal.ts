/** `Symbol.asyncDispose`; undefined in a runtime without `await using`. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol("Symbol.asyncDispose") as typeof Symbol.asyncDispose);
