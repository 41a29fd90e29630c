/** Decimal numbers in keys. */
import type { Entry } from "../index.js";
import { badValue, quoted, wrongType } from "./arguments.js";
import { InvalidArgumentError } from "./errors.js";

/** As every language writes them: no plus sign, no blanks, no leading zeros. */
const DECIMAL = /^(?:0|-?[1-9][0-9]{0,18})$/;
const [LEAST, MOST] = [-(2n ** 63n), 2n ** 63n - 1n];

/** Checks what is to be added. */
export function summand(by: unknown): bigint {
  if (typeof by !== "number" && typeof by !== "bigint") {
    throw wrongType("by", "a number or a bigint", by);
  }
  if (typeof by === "number" ? !Number.isSafeInteger(by) : !fits(by)) {
    throw badValue("by", typeof by === "number" ? "must be a safe integer, or a bigint" : "must have at most 64 bits", by);
  }
  return BigInt(by);
}

function fits(number: bigint): boolean {
  return number >= LEAST && number <= MOST;
}

/** The sum of the number in an entry, 0 if there is none, and another one. A sum that the caller cannot get is an error, and so is not written. */
export function sum(key: Uint8Array, old: Entry | null, by: bigint, asNumber: boolean): bigint {
  const text = old === null ? "0" : old.value.toString();
  const number = DECIMAL.test(text) ? BigInt(text) : undefined;
  if (number === undefined || !fits(number)) {
    throw new InvalidArgumentError(`the value of ${quoted(key)} is not a decimal number of 64 bits, so nothing can be added to it`);
  }
  const sum = number + by;
  if (!fits(sum)) {
    throw new InvalidArgumentError(`the sum for ${quoted(key)} would have more than 64 bits`);
  }
  if (asNumber && !Number.isSafeInteger(Number(sum))) {
    throw new InvalidArgumentError(`the sum for ${quoted(key)} would not be a safe integer; pass \`by\` as a bigint, and you get a bigint`);
  }
  return sum;
}
