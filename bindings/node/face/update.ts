/** Compare-and-set with a function of the caller. */
import type { Data, Entry, UpdateOptions, UpdateOutcome } from "../index.js";
import { data, updateInput } from "./arguments.js";
import type { Call } from "./known.js";
import type { Begun, UpdateInput } from "./native.js";
import type { Operations } from "./operations.js";
import * as results from "./results.js";

export type Change = (old: Entry | null) => Data | null | undefined | Promise<Data | null | undefined>;

/** `begin` begins the operation, of a client or of a guard. */
export async function update(
  operations: Operations,
  call: Call,
  begin: (input: UpdateInput) => Begun,
  change: Change,
  options: UpdateOptions | undefined,
): Promise<UpdateOutcome> {
  /** What `change` threw. */
  let thrown: { error: unknown } | undefined;
  let hasEnded = false;

  const answer = async (operation: number, a: unknown, b: unknown) => {
    try {
      const value = await change(results.entry(operations.shown(a), operations.shown(b)));
      const bytes = value === undefined || value === null ? undefined : data("what change returns", value);
      // Its number may be that of another operation by now.
      if (!hasEnded) {
        operations.native.answer(operation, bytes);
      }
    } catch (error) {
      thrown ??= { error };
      if (!hasEnded) {
        operations.native.cancel(operation);
      }
    }
  };

  try {
    return await operations.run(
      call,
      options,
      (from) => begin(updateInput(from)),
      (is, version) => {
        hasEnded = true;
        return results.update(is, version);
      },
      (operation, a, b) => void answer(operation, a, b),
    );
  } catch (error) {
    throw thrown === undefined ? error : thrown.error;
  } finally {
    hasEnded = true;
  }
}
