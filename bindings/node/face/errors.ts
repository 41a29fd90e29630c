/** Errors: a class for each kind. */
import type { ErrorCode, Outcome } from "../index.js";
import type { Failure } from "./native.js";
import { isError } from "./realm.js";

interface Details {
  outcome?: Outcome;
  retryable?: boolean;
  cause?: unknown;
}

/** Marks instances of our classes, one of which descends from another class than the others. */
const STATESTORE_ERROR = Symbol("statestore.error");

/** The members of all errors. */
interface ErrorMembers {
  code: ErrorCode;
  outcome: Outcome;
  retryable: boolean;
}

function prepare(error: Error & Partial<ErrorMembers>, details: Details | undefined): void {
  const of = error.constructor as unknown as { code?: ErrorCode; retryable?: boolean };
  const members: Record<string, unknown> = {
    code: of.code ?? "OtherRefusal",
    outcome: details?.outcome ?? "unknown",
    retryable: details?.retryable ?? of.retryable ?? false,
  };
  for (const [name, value] of Object.entries(members)) {
    Object.defineProperty(error, name, { value, enumerable: true });
  }
  Object.defineProperty(error, STATESTORE_ERROR, { value: true });
}

function causedBy(details: Details | undefined): ErrorOptions | undefined {
  return details !== undefined && "cause" in details ? { cause: details.cause } : undefined;
}

export class StateStoreError extends Error {
  declare readonly code: ErrorCode;
  declare readonly outcome: Outcome;
  declare readonly retryable: boolean;

  constructor(message: string, details?: Details) {
    super(message, causedBy(details));
    prepare(this, details);
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    if (this !== StateStoreError) {
      return Function.prototype[Symbol.hasInstance].call(this, value);
    }
    return typeof value === "object" && value !== null && STATESTORE_ERROR in value;
  }
}

/** An invalid value; also a `RangeError`. */
class OutOfRange extends RangeError {
  declare readonly code: ErrorCode;
  declare readonly outcome: Outcome;
  declare readonly retryable: boolean;

  constructor(message: string, details?: Details) {
    super(message, causedBy(details));
    prepare(this, { outcome: "not_done", ...details });
  }
}

type ErrorClass = new (message: string, details?: Details) => StateStoreError;

function kind(code: ErrorCode, retryable: boolean, parent: ErrorClass = StateStoreError): ErrorClass {
  // One class in this language has that name already.
  const name = code === "Syntax" ? "RequestSyntaxError" : `${code}Error`;
  const made = { [name]: class extends parent {} }[name] as ErrorClass;
  Object.defineProperties(made, { code: { value: code }, retryable: { value: retryable } });
  Object.defineProperty(made.prototype, "name", { value: name });
  return made;
}

export const InvalidArgumentError = kind("InvalidArgument", false, OutOfRange);
export const InvalidSettingsError = kind("InvalidSettings", false);
export const InvalidHandleError = kind("InvalidHandle", false);
export const WrongThreadError = kind("WrongThread", false);
export const InternalError = kind("Internal", false);
export const UnreachableError = kind("Unreachable", true);
export const ConnectionRefusedError = kind("ConnectionRefused", false);
export const NotAuthenticatedError = kind("NotAuthenticated", false);
export const SessionLostError = kind("SessionLost", true);
export const ClosedError = kind("Closed", false);
export const UntrustedError = kind("Untrusted", false);
export const ForkedError = kind("Forked", false);
export const TimedOutError = kind("TimedOut", true);
export const QueueFullError = kind("QueueFull", true);
export const TooLargeError = kind("TooLarge", false);
export const RejectedError = kind("Rejected", true);
export const NoStoreError = kind("NoStore", true);
export const CancelledError = kind("Cancelled", false);
export const SupersededError = kind("Superseded", false);
export const InvalidResponseError = kind("InvalidResponse", false);
export const RpcError = kind("Rpc", true);
export const UnsupportedError = kind("Unsupported", false);
export const LockHeldError = kind("LockHeld", true);
export const LockLostError = kind("LockLost", false);
export const NotALockError = kind("NotALock", false);
export const TimestampSkewError = kind("TimestampSkew", false);
export const FencingTokenRequiredError = kind("FencingTokenRequired", false);
export const FencingTokenSkewError = kind("FencingTokenSkew", false);
export const FencingTokenLowerError = kind("FencingTokenLower", false);
export const QuotaExceededError = kind("QuotaExceeded", true);
export const RequestSyntaxError = kind("Syntax", false);
export const NotAuthorizedError = kind("NotAuthorized", false);
export const UnknownCommandError = kind("UnknownCommand", false);
export const WrongArgumentsError = kind("WrongArguments", false);
export const MissingTimestampError = kind("MissingTimestamp", false);
export const MalformedTimestampError = kind("MalformedTimestamp", false);
export const EmptyKeyError = kind("EmptyKey", false);
export const OtherRefusalError = kind("OtherRefusal", false);

/** All of them, in the order of their numbers. */
export const classes: readonly ErrorClass[] = [
  InvalidArgumentError,
  InvalidSettingsError,
  InvalidHandleError,
  WrongThreadError,
  InternalError,
  UnreachableError,
  ConnectionRefusedError,
  NotAuthenticatedError,
  SessionLostError,
  ClosedError,
  UntrustedError,
  ForkedError,
  TimedOutError,
  QueueFullError,
  TooLargeError,
  RejectedError,
  NoStoreError,
  CancelledError,
  SupersededError,
  InvalidResponseError,
  RpcError,
  UnsupportedError,
  LockHeldError,
  LockLostError,
  NotALockError,
  TimestampSkewError,
  FencingTokenRequiredError,
  FencingTokenSkewError,
  FencingTokenLowerError,
  QuotaExceededError,
  RequestSyntaxError,
  NotAuthorizedError,
  UnknownCommandError,
  WrongArgumentsError,
  MissingTimestampError,
  MalformedTimestampError,
  EmptyKeyError,
  OtherRefusalError,
];

const byCode = new Map(classes.map((made) => [(made as unknown as { code: string }).code, made]));

/** The error of a failure. */
export function failed(failure: Failure): StateStoreError {
  const { message, outcome, retryable, causes } = failure;
  // A kind that only a newer native half knows is treated by its outcome.
  const made = byCode.get(failure.kind) ?? OtherRefusalError;
  let cause: Error | undefined;
  for (const text of [...causes].reverse()) {
    cause = new Error(text, cause === undefined ? undefined : { cause });
  }
  if (failure.errno !== undefined && failure.errno !== null) {
    // As errors of Node have them. The module is loaded with the first such error.
    const { getSystemErrorName } = require("node:util") as typeof import("node:util");
    const system = { errno: -failure.errno, code: getSystemErrorName(-failure.errno) };
    for (let at: unknown = cause; isError(at); at = at.cause) {
      Object.assign(at, system);
    }
  }
  const error = new made(message, cause === undefined ? { outcome, retryable } : { outcome, retryable, cause });
  if (failure.results !== undefined) {
    const results = failure.results.map((result) => ("failure" in result ? failed(result.failure) : result.outcome));
    Object.defineProperty(error, "results", { value: results });
  }
  if (failure.operation !== undefined && failure.operation !== null) {
    Object.defineProperty(error, "operation", { value: failure.operation });
  }
  return error;
}

/** The line of a call, for the stacks of errors that are made when its caller is no longer on the stack. */
export class CallSite {
  declare readonly stack?: unknown;

  /** Leaves out `callee` and the frames above it. */
  constructor(callee: Function) {
    Error.captureStackTrace(this, callee);
  }

  /** Has the stack of an error begin at the call. */
  mark<E extends Error>(error: E): E {
    // A string unless the program has a `prepareStackTrace` of its own.
    const stack = this.stack;
    const frames = typeof stack === "string" ? stack.indexOf("\n    at ") : -1;
    if (frames >= 0) {
      const value = `${String(error)}${(stack as string).slice(frames)}`;
      Object.defineProperty(error, "stack", { value, writable: true, configurable: true });
    }
    return error;
  }
}

/** Calls the native half where it may throw a failure. */
export function direct<T>(call: () => T): T {
  try {
    return call();
  } catch (thrown) {
    // What it throws is no error, but a failure; anything else is a bug.
    throw isError(thrown) ? thrown : failed(thrown as Failure);
  }
}
