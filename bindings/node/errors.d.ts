/** Errors: a class for each kind, with its `code`. Each kind is explained in docs/errors.md. */
import type { Client, DelOutcome, SetOutcome } from "./index.js";

/** `not_done`: it certainly did not happen. `unknown`: it may have. */
export type Outcome = "not_done" | "unknown";

/** The base class of all errors of this library. The classes below, one for each `code`, are the same in every language. */
export class StateStoreError extends Error {
  constructor(message: string, details?: { outcome?: Outcome; retryable?: boolean; cause?: unknown });
  /** Kind of the error; the class has the same name. */
  readonly code: ErrorCode;
  /** Whether the failed request may have been executed. */
  readonly outcome: Outcome;
  /** Whether the same call may succeed later without anything being changed by hand. */
  readonly retryable: boolean;
  /** Of {@link Client.setMany} and {@link Client.delMany}: what became of each key, in their order. */
  readonly results?: readonly (SetOutcome | DelOutcome | StateStoreError)[];
  /** Which operation of a transaction cannot be, or was refused, from 0, if that is why nothing was done. */
  readonly operation?: number;
}

/** An argument is not valid: an empty or overlong key, an expiry of 0 ms, NULL in C; or the value does not fit. */
export class InvalidArgumentError extends StateStoreError {
  readonly code: "InvalidArgument";
}
/** The connection settings contradict each other, cannot be parsed, or name an unusable file. */
export class InvalidSettingsError extends StateStoreError {
  readonly code: "InvalidSettings";
}
/** A handle was freed before, or has another type. Only in C. */
export class InvalidHandleError extends StateStoreError {
  readonly code: "InvalidHandle";
}
/** The call would wait for itself, as in a callback of its own client. Not in Node. */
export class WrongThreadError extends StateStoreError {
  readonly code: "WrongThread";
}
/** The library detected a bug in itself, or the system provides no thread. */
export class InternalError extends StateStoreError {
  readonly code: "Internal";
}
/**
 * The broker could not be reached: name not found, connection refused, or no response. With `fail_fast` also during
 * an outage.
 */
export class UnreachableError extends StateStoreError {
  readonly code: "Unreachable";
}
/** The broker rejected the CONNECT or the SUBSCRIBE. */
export class ConnectionRefusedError extends StateStoreError {
  readonly code: "ConnectionRefused";
}
/** The broker rejected the credentials, or denies this client what it needs. */
export class NotAuthenticatedError extends StateStoreError {
  readonly code: "NotAuthenticated";
}
/** The connection and its session were lost, so no response can arrive. */
export class SessionLostError extends StateStoreError {
  readonly code: "SessionLost";
}
/** The client was closed, or gave up reconnecting. In C also the end of an observer. */
export class ClosedError extends StateStoreError {
  readonly code: "Closed";
}
/** The broker's TLS certificate has expired, names another host, or has an unknown signer. */
export class UntrustedError extends StateStoreError {
  readonly code: "Untrusted";
}
/** The client belongs to the parent of this forked process. Not in Node. */
export class ForkedError extends StateStoreError {
  readonly code: "Forked";
}
/** No response, no connection or no event came in time. */
export class TimedOutError extends StateStoreError {
  readonly code: "TimedOut";
}
/** The queue of waiting requests is full. */
export class QueueFullError extends StateStoreError {
  readonly code: "QueueFull";
}
/**
 * The request exceeds a limit of the broker or MQTT, its value `max_value_bytes`, or more keys match a pattern than
 * `max_keys`.
 */
export class TooLargeError extends StateStoreError {
  readonly code: "TooLarge";
}
/** The broker rejected the request. */
export class RejectedError extends StateStoreError {
  readonly code: "Rejected";
}
/** No state store listens behind the broker. */
export class NoStoreError extends StateStoreError {
  readonly code: "NoStore";
}
/** The caller cancelled the operation or its wait. Not in Rust. */
export class CancelledError extends StateStoreError {
  readonly code: "Cancelled";
}
/** With `coalesce`, a newer SET of the key replaced this one before it was sent. */
export class SupersededError extends StateStoreError {
  readonly code: "Superseded";
}
/** The response does not follow the protocol. */
export class InvalidResponseError extends StateStoreError {
  readonly code: "InvalidResponse";
}
/** The response reports a failed remote procedure call. */
export class RpcError extends StateStoreError {
  readonly code: "Rpc";
}
/** The store lacks what the call needs, or the value belongs to an unfinished transaction. */
export class UnsupportedError extends StateStoreError {
  readonly code: "Unsupported";
}
/** Another client still held the lock when the wait ended. */
export class LockHeldError extends StateStoreError {
  readonly code: "LockHeld";
}
/** The lock was lost or given back, so operations under it fail. */
export class LockLostError extends StateStoreError {
  readonly code: "LockLost";
}
/** The lock's key holds something other than a holder's name. */
export class NotALockError extends StateStoreError {
  readonly code: "NotALock";
}
/** The store refused: the clocks of client and store are too far apart. */
export class TimestampSkewError extends StateStoreError {
  readonly code: "TimestampSkew";
}
/** The store refused: a fencing token protects the key, and the request has none. */
export class FencingTokenRequiredError extends StateStoreError {
  readonly code: "FencingTokenRequired";
}
/** The store refused: the fencing token is too far in the future. */
export class FencingTokenSkewError extends StateStoreError {
  readonly code: "FencingTokenSkew";
}
/** The store refused: a higher fencing token protects the key. */
export class FencingTokenLowerError extends StateStoreError {
  readonly code: "FencingTokenLower";
}
/** The store refused: a quota of keys, memory or watches is used up. */
export class QuotaExceededError extends StateStoreError {
  readonly code: "QuotaExceeded";
}
/** The store refused: the payload has an unexpected form. */
export class RequestSyntaxError extends StateStoreError {
  readonly code: "Syntax";
}
/** The store refused: this client may not do this to this key. */
export class NotAuthorizedError extends StateStoreError {
  readonly code: "NotAuthorized";
}
/** The store refused: it does not know the command. */
export class UnknownCommandError extends StateStoreError {
  readonly code: "UnknownCommand";
}
/** The store refused: too few or too many arguments. */
export class WrongArgumentsError extends StateStoreError {
  readonly code: "WrongArguments";
}
/** The store refused: the request has no timestamp. */
export class MissingTimestampError extends StateStoreError {
  readonly code: "MissingTimestamp";
}
/** The store refused: the timestamp or fencing token is not an HLC. */
export class MalformedTimestampError extends StateStoreError {
  readonly code: "MalformedTimestamp";
}
/** The store refused: the key is empty. */
export class EmptyKeyError extends StateStoreError {
  readonly code: "EmptyKey";
}
/** The store refused with a text that this library does not know. */
export class OtherRefusalError extends StateStoreError {
  readonly code: "OtherRefusal";
}

/** The name of a kind of error. */
export type ErrorCode =
  | "InvalidArgument"
  | "InvalidSettings"
  | "InvalidHandle"
  | "WrongThread"
  | "Internal"
  | "Unreachable"
  | "ConnectionRefused"
  | "NotAuthenticated"
  | "SessionLost"
  | "Closed"
  | "Untrusted"
  | "Forked"
  | "TimedOut"
  | "QueueFull"
  | "TooLarge"
  | "Rejected"
  | "NoStore"
  | "Cancelled"
  | "Superseded"
  | "InvalidResponse"
  | "Rpc"
  | "Unsupported"
  | "LockHeld"
  | "LockLost"
  | "NotALock"
  | "TimestampSkew"
  | "FencingTokenRequired"
  | "FencingTokenSkew"
  | "FencingTokenLower"
  | "QuotaExceeded"
  | "Syntax"
  | "NotAuthorized"
  | "UnknownCommand"
  | "WrongArguments"
  | "MissingTimestamp"
  | "MalformedTimestamp"
  | "EmptyKey"
  | "OtherRefusal";
