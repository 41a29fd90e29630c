/**
 * Checks of what a caller passes: a wrong type is a `TypeError`, a bad value an `InvalidArgumentError` (a `RangeError`), both
 * with the argument's name.
 */
import { Buffer } from "node:buffer";
import type { Retry, StateStoreError } from "../index.js";
import { InvalidArgumentError } from "./errors.js";
import { Hlc } from "./hlc.js";
import { KNOWN, known, type Call } from "./known.js";
import type { DelInput, LockInput, ObserveMatchingInput, SetInput, TransactInput, UpdateInput } from "./native.js";
import { isAbortSignal, isUint8Array } from "./realm.js";

/** Words of conditions and retries as they are in every language. */
const CONDITIONS = ["always", "if_absent", "if_absent_or_equal"];
const RETRIES: Retry[] = ["safe", "always", "never"];
/** Observations that an observer of `all` keeps unless told otherwise. */
const KEPT = 1024;
const MOST_KEPT = 2 ** 32 - 1;
/** Maximum of `maxKeys`. */
const MOST_KEYS = 2 ** 32 - 1;
/** The limits of a mirror unless the caller names others. */
const MIRROR_LIMITS: MirrorLimits = { maxKeys: 1_000_000, maxBytes: 256 * 2 ** 20 };

export function wrongType(name: string, expected: string, value: unknown): TypeError {
  const found = value === null ? "null" : Array.isArray(value) ? "an array" : typeof value;
  return new TypeError(`${name} must be ${expected}, not ${found}`);
}

export function badValue(name: string, problem: string, value: unknown): StateStoreError {
  const shown = typeof value === "string" ? JSON.stringify(value) : String(value);
  return new InvalidArgumentError(`${name} ${problem}, not ${shown}`);
}

/** Whether a string has no surrogate without its pair. */
function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed();
}

export function data(name: string, value: unknown): Uint8Array {
  if (typeof value === "string") {
    if (!isWellFormed(value)) {
      throw new InvalidArgumentError(`${name} has a surrogate without its pair, which UTF-8 cannot encode; pass bytes instead`);
    }
    return Buffer.from(value);
  }
  if (isUint8Array(value)) {
    return value;
  }
  throw wrongType(name, "a string, a Buffer or a Uint8Array", value);
}

/** A key, a name or a pattern in messages. */
export function quoted(value: unknown): string {
  return typeof value === "string" || isUint8Array(value) ? JSON.stringify(Buffer.from(value as string).toString()) : "an argument";
}

export function manyData(name: string, value: unknown): Uint8Array[] {
  // A string can be iterated over, but nobody means its characters.
  if (typeof value === "string" || isUint8Array(value) || typeof (value as Iterable<unknown> | null)?.[Symbol.iterator] !== "function") {
    throw wrongType(name, "an iterable of strings, Buffers or Uint8Arrays", value);
  }
  return Array.from(value as Iterable<unknown>, (item, index) => data(`${name}[${index}]`, item));
}

/** Keys and values: of a map, of pairs, or the members of an object. */
export function pairs(name: string, value: unknown): [Uint8Array[], Uint8Array[]] {
  const isIterable = typeof (value as Iterable<unknown> | null | undefined)?.[Symbol.iterator] === "function";
  if (typeof value !== "object" || value === null || isUint8Array(value)) {
    throw wrongType(name, "an object, a map or an iterable of pairs", value);
  }
  const [keys, contents]: [Uint8Array[], Uint8Array[]] = [[], []];
  for (const [index, pair] of [...(isIterable ? (value as Iterable<unknown>) : Object.entries(value))].entries()) {
    if (!Array.isArray(pair) || pair.length !== 2) {
      throw wrongType(`${name}[${index}]`, "a pair of a key and a value", pair);
    }
    keys.push(data(`${name}[${index}][0]`, pair[0]));
    contents.push(data(`${name}[${index}][1]`, pair[1]));
  }
  return [keys, contents];
}

export function callback(name: string, value: unknown): void {
  if (typeof value !== "function") {
    throw wrongType(name, "a function", value);
  }
}

/** The members of an options object. */
export type Options = Record<string, unknown>;

const NONE: Options = Object.freeze({});

/** The options of a call, of which there are no others than the known ones. */
export function options(call: Call, value: unknown): Options {
  const from = members("options", value);
  known(from, KNOWN[call], (unknown) => `${call} has no option ${unknown}`);
  return from;
}

/** The members of an object that may be missing. */
export function members(name: string, value: unknown): Options {
  if (value === undefined || value === null) {
    return NONE;
  }
  if (typeof value !== "object" || Array.isArray(value)) {
    throw wrongType(name, "an object", value);
  }
  return value as Options;
}

function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

/** Times for which a call may wait, and so may be `Infinity`. */
const WAITS = ["timeout", "wait"];

/** A time in milliseconds. */
export function time(from: Options, name: string): number | undefined {
  const value = from[name];
  if (value === Infinity && WAITS.includes(name)) {
    return Infinity;
  }
  if (isAbsent(value)) {
    return undefined;
  }
  if (typeof value !== "number") {
    throw wrongType(name, "a number of milliseconds", value);
  }
  if (!(value >= 0 && value <= Number.MAX_SAFE_INTEGER)) {
    throw badValue(name, "must be a number of milliseconds from 0 to 2^53 - 1", value);
  }
  return value;
}

/** A time in milliseconds after which something is given up, or `Infinity`: never. */
export function limit(from: Options, name: string): number | undefined {
  return from[name] === Infinity ? Infinity : time(from, name);
}

export function integer(from: Options, name: string, max: number): number | undefined {
  const value = from[name];
  if (isAbsent(value)) {
    return undefined;
  }
  if (typeof value !== "number") {
    throw wrongType(name, "a number", value);
  }
  if (!(Number.isInteger(value) && value >= 0 && value <= max)) {
    throw badValue(name, `must be a whole number from 0 to ${max}`, value);
  }
  return value;
}

export function text(from: Options, name: string): string | undefined {
  const value = from[name];
  if (isAbsent(value)) {
    return undefined;
  }
  if (typeof value !== "string") {
    throw wrongType(name, "a string", value);
  }
  return value;
}

export function flag(from: Options, name: string): boolean | undefined {
  const value = from[name];
  if (isAbsent(value)) {
    return undefined;
  }
  if (typeof value !== "boolean") {
    throw wrongType(name, "a boolean", value);
  }
  return value;
}

function word(from: Options, name: string, words: readonly string[]): string | undefined {
  const value = text(from, name);
  if (value !== undefined && !words.includes(value)) {
    throw badValue(name, `must be one of ${words.join(", ")}`, value);
  }
  return value;
}

export function signal(from: Options): AbortSignal | undefined {
  const value = from.signal;
  if (isAbsent(value)) {
    return undefined;
  }
  if (!isAbortSignal(value)) {
    throw wrongType("signal", "an AbortSignal", value);
  }
  return value;
}

function hlc(from: Options, name: string): string | undefined {
  const value = from[name];
  if (isAbsent(value)) {
    return undefined;
  }
  if (!Hlc.is(value)) {
    throw wrongType(name, "an Hlc", value);
  }
  return value.toString();
}

/** A word, or the version that the key is to have. */
function condition(from: Options): Pick<SetInput, "condition" | "ifVersion"> {
  const value = from.condition;
  if (typeof value !== "object" || value === null) {
    return present<SetInput>({ condition: word(from, "condition", CONDITIONS) } as SetInput);
  }
  known(value, ["ifVersion"], (unknown) => `condition has no member ${unknown}`);
  const ifVersion = hlc(value as Options, "ifVersion");
  if (ifVersion === undefined) {
    throw wrongType("ifVersion", "an Hlc", undefined);
  }
  return { ifVersion };
}

/** Without what is `undefined`, which the native half does not take for absent. */
function present<T extends object>(input: { [Name in keyof T]: T[Name] | undefined }): T {
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined)) as T;
}

export function setInput(from: Options): SetInput {
  return present<SetInput>({
    ...condition(from),
    expiresIn: limit(from, "expiresIn"),
    fencingToken: hlc(from, "fencingToken"),
    persist: flag(from, "persist"),
    coalesce: flag(from, "coalesce"),
    timeout: time(from, "timeout"),
    retry: word(from, "retry", RETRIES),
  } as SetInput);
}

export function delInput(from: Options): DelInput {
  return present<DelInput>({
    fencingToken: hlc(from, "fencingToken"),
    ifVersion: hlc(from, "ifVersion"),
    timeout: time(from, "timeout"),
    retry: word(from, "retry", RETRIES),
  });
}

export function transactInput(from: Options): TransactInput {
  return present<TransactInput>({
    persist: flag(from, "persist"),
    timeout: time(from, "timeout"),
    retry: word(from, "retry", RETRIES),
  });
}

export function updateInput(from: Options): UpdateInput {
  return present<UpdateInput>({
    expiresIn: limit(from, "expiresIn"),
    persist: flag(from, "persist"),
    timeout: time(from, "timeout"),
  });
}

export function observeMatchingInput(from: Options): ObserveMatchingInput {
  return present<ObserveMatchingInput>({
    refresh: from.refresh === null ? 0 : interval(from, "refresh"),
    maxKeys: integer(from, "maxKeys", MOST_KEYS),
    timeout: time(from, "timeout"),
  });
}

/** The limits of a mirror. */
export interface MirrorLimits {
  maxKeys: number;
  maxBytes: number;
}

export function mirrorLimits(from: Options): MirrorLimits {
  return {
    maxKeys: integer(from, "maxKeys", MOST_KEYS) ?? MIRROR_LIMITS.maxKeys,
    maxBytes: integer(from, "maxBytes", Number.MAX_SAFE_INTEGER) ?? MIRROR_LIMITS.maxBytes,
  };
}

export function lockInput(from: Options): LockInput {
  return present<LockInput>({
    duration: time(from, "duration"),
    renewal: renewal(from),
    holder: isAbsent(from.holder) ? undefined : data("holder", from.holder),
    resume: flag(from, "resume"),
    timeout: time(from, "timeout"),
    foreignLeaseMax: time(from, "foreignLeaseMax"),
    wait: time(from, "wait"),
  });
}

function renewal(from: Options): number | undefined {
  switch (from.renewal) {
    case "third":
      return undefined;
    case "manual":
      return 0;
    default:
  }
  if (typeof from.renewal === "string") {
    throw badValue("renewal", "must be third, manual or a number of milliseconds", from.renewal);
  }
  return interval(from, "renewal");
}

/** A time between two repetitions. */
function interval(from: Options, name: string): number | undefined {
  const every = time(from, name);
  if (every === 0) {
    throw badValue(name, "must be more than 0 ms", every);
  }
  return every;
}

/** How many observations are kept; only the latest if `undefined`. */
export function kept(from: Options): number | undefined {
  const overflow = from.overflow;
  if (isAbsent(overflow) || overflow === "latest") {
    return undefined;
  }
  if (overflow === "all") {
    return KEPT;
  }
  if (typeof overflow === "string") {
    throw badValue("overflow", "must be latest, all or { all: number }", overflow);
  }
  if (typeof overflow !== "object") {
    throw wrongType("overflow", "latest, all or { all: number }", overflow);
  }
  known(overflow, ["all"], (unknown) => `overflow has no member ${unknown}`);
  const all = integer(overflow as Options, "all", MOST_KEPT);
  if (all === undefined || all === 0) {
    throw badValue("overflow.all", `must be a whole number from 1 to ${MOST_KEPT}`, all);
  }
  return all;
}
