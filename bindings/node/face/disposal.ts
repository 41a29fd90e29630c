/** `Symbol.asyncDispose`, which the first releases of Node 20 do not have; compilers use the same symbol in its place. */
export const asyncDispose: typeof Symbol.asyncDispose =
  Symbol.asyncDispose ?? (Symbol.for("Symbol.asyncDispose") as typeof Symbol.asyncDispose);
