/** Compare-and-set with a function of the caller. */
import type { Data, Entry, UpdateOptions, UpdateOutcome } from "../index.js";
import { data, quoted, updateInput } from "./arguments.js";
import type { Call } from "./known.js";
import type { BeginResult, UpdateInput } from "./native.js";
import type { Operations } from "./operations.js";
import * as results from "./results.js";

export type Change = (old: Entry | null) => Data | null | undefined | Promise<Data | null | undefined>;

/** `begin` begins the operation, of a client or of a guard. */
export async function update(
  operations: Operations,
  call: Call,
  key: Uint8Array,
  begin: (input: UpdateInput) => BeginResult,
  change: Change,
  options: UpdateOptions | undefined,
): Promise<UpdateOutcome> {
  const subject = () => `the value of ${quoted(key)}`;
  /** The exception of `change`. */
  let thrown: { error: unknown } | undefined;
  let hasEnded = false;
  const site = operations.callSite(update);

  const returned = (value: Data): Uint8Array => {
    try {
      return data(`the value that change returned for ${quoted(key)}`, value);
    } catch (error) {
      throw site?.mark(error as TypeError) ?? error;
    }
  };

  const answer = async (operation: number, a: unknown, b: unknown) => {
    try {
      const value = await change(results.remaining(operations.shown(a, subject), operations.shown(b)));
      const bytes = value === undefined || value === null ? undefined : returned(value);
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
      { question: (operation, a, b) => void answer(operation, a, b), subject },
      key,
    );
  } catch (error) {
    throw thrown === undefined ? error : thrown.error;
  } finally {
    hasEnded = true;
  }
}
