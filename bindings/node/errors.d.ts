/** Errors: a class for each kind, with its `code`. Each kind is explained in docs/errors.md. */
import type { Client, DelOutcome, SetOutcome } from "./index.js";

/** `not_done`: it certainly did not happen. `unknown`: it may have. */
export type Outcome = "not_done" | "unknown";

/** What every error of this library is. The classes below, one for each `code`, are the same in every language. */
export class StateStoreError extends Error {
  constructor(message: string, details?: { outcome?: Outcome; retryable?: boolean; cause?: unknown });
  readonly code: ErrorCode;
  readonly outcome: Outcome;
  /** Whether the same call may succeed later without anything being changed by hand. */
  readonly retryable: boolean;
  /** Of {@link Client.setMany} and {@link Client.delMany}: what became of each key, in their order. */
  readonly results?: readonly (SetOutcome | DelOutcome | StateStoreError)[];
  /** Which operation of a transaction cannot be, or was refused, from 0, if that is why nothing was done. */
  readonly operation?: number;
}

/**
 * An argument cannot be used: an empty key, a key or pattern that is longer than the store takes, an expiry of 0 ms,
 * a name that no lock can have. In C also NULL where that is not allowed, and options of another version.
 */
export class InvalidArgumentError extends StateStoreError {
  readonly code: "InvalidArgument";
}
/** The connection settings contradict each other, cannot be parsed, or name a file that cannot be used. */
export class InvalidSettingsError extends StateStoreError {
  readonly code: "InvalidSettings";
}
/** A handle was freed before, or is of another type. Only in C. */
export class InvalidHandleError extends StateStoreError {
  readonly code: "InvalidHandle";
}
/** The call would wait for itself, as closing a client in one of its own callbacks. Not in Node. */
export class WrongThreadError extends StateStoreError {
  readonly code: "WrongThread";
}
/** A bug of this library was met, or the system gives no thread. */
export class InternalError extends StateStoreError {
  readonly code: "Internal";
}
/** The broker could not be reached: name not found, connection refused, no answer in time. */
export class UnreachableError extends StateStoreError {
  readonly code: "Unreachable";
}
/** The broker answered the CONNECT or the SUBSCRIBE with a refusal. */
export class ConnectionRefusedError extends StateStoreError {
  readonly code: "ConnectionRefused";
}
/** The broker does not accept the credentials, or does not allow this client what it needs. */
export class NotAuthenticatedError extends StateStoreError {
  readonly code: "NotAuthenticated";
}
/** The connection was lost, and the session with it, so no response can come any more. */
export class SessionLostError extends StateStoreError {
  readonly code: "SessionLost";
}
/** The client was closed, or gave up its connection for good. In C also the end of what is observed. */
export class ClosedError extends StateStoreError {
  readonly code: "Closed";
}
/**
 * The broker's TLS certificate is not acceptable: signed by somebody unknown, expired, or made out to another name.
 */
export class UntrustedError extends StateStoreError {
  readonly code: "Untrusted";
}
/** The client was made before this process was forked from another one, which still has it. Not in Node. */
export class ForkedError extends StateStoreError {
  readonly code: "Forked";
}
/**
 * No response came in time, there was no connection to send the request on, or nothing happened while it was waited
 * for.
 */
export class TimedOutError extends StateStoreError {
  readonly code: "TimedOut";
}
/** As many requests wait as may wait. */
export class QueueFullError extends StateStoreError {
  readonly code: "QueueFull";
}
/** The request is larger than the broker or MQTT allows, or the value than `max_value_bytes`. */
export class TooLargeError extends StateStoreError {
  readonly code: "TooLarge";
}
/** The broker refused to take the request. */
export class RejectedError extends StateStoreError {
  readonly code: "Rejected";
}
/** No state store listens behind the broker. */
export class NoStoreError extends StateStoreError {
  readonly code: "NoStore";
}
/** The caller gave the operation up, or interrupted waiting for it. Not in Rust, where the future is dropped. */
export class CancelledError extends StateStoreError {
  readonly code: "Cancelled";
}
/**
 * A newer SET of the key took its place before it was sent, as the option `coalesce` asks while the network is away.
 */
export class SupersededError extends StateStoreError {
  readonly code: "Superseded";
}
/** The response is not what the protocol defines. */
export class InvalidResponseError extends StateStoreError {
  readonly code: "InvalidResponse";
}
/** The response says that the remote procedure call itself failed. */
export class RpcError extends StateStoreError {
  readonly code: "Rpc";
}
/** The store cannot do that: not every store has conditions on versions, remaining times and transactions. */
export class UnsupportedError extends StateStoreError {
  readonly code: "Unsupported";
}
/** Somebody else holds the lock, and the time to wait for it is over. */
export class LockHeldError extends StateStoreError {
  readonly code: "LockHeld";
}
/** The lock is lost or was given back, so nothing is done in its name any more. */
export class LockLostError extends StateStoreError {
  readonly code: "LockLost";
}
/** The key of the lock holds something that is not the name of a holder. */
export class NotALockError extends StateStoreError {
  readonly code: "NotALock";
}
/** The store refused: the clocks of client and store are too far apart. */
export class TimestampSkewError extends StateStoreError {
  readonly code: "TimestampSkew";
}
/** The store refused: the key is protected by a fencing token and the request has none. */
export class FencingTokenRequiredError extends StateStoreError {
  readonly code: "FencingTokenRequired";
}
/** The store refused: the fencing token is too far in the future. */
export class FencingTokenSkewError extends StateStoreError {
  readonly code: "FencingTokenSkew";
}
/** The store refused: the key is protected by a higher fencing token. */
export class FencingTokenLowerError extends StateStoreError {
  readonly code: "FencingTokenLower";
}
/** The store refused: it holds as many keys as it may. */
export class QuotaExceededError extends StateStoreError {
  readonly code: "QuotaExceeded";
}
/** The store refused: the payload is not what it expects. */
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
/** The store refused with a text that this version of the library does not know. */
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
