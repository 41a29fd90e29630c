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
}

/** An argument cannot be sent: an empty key, a negative time. It is a `RangeError` too. */
export class InvalidArgumentError extends StateStoreError {
  readonly code: "InvalidArgument";
}
/** The connection settings contradict each other, or name a file that cannot be used. */
export class InvalidSettingsError extends StateStoreError {
  readonly code: "InvalidSettings";
}
/** Not in Node: a handle that was freed. */
export class InvalidHandleError extends StateStoreError {
  readonly code: "InvalidHandle";
}
/** Not in Node: a call that would wait for itself. */
export class WrongThreadError extends StateStoreError {
  readonly code: "WrongThread";
}
/** A bug of this library was met; the client cannot be used any more. */
export class InternalError extends StateStoreError {
  readonly code: "Internal";
}
/** The broker could not be reached. */
export class UnreachableError extends StateStoreError {
  readonly code: "Unreachable";
}
/** The broker refused the connection. */
export class ConnectionRefusedError extends StateStoreError {
  readonly code: "ConnectionRefused";
}
/** The broker does not accept the credentials. */
export class NotAuthenticatedError extends StateStoreError {
  readonly code: "NotAuthenticated";
}
/** The session was lost, so no response can come any more. */
export class SessionLostError extends StateStoreError {
  readonly code: "SessionLost";
}
/** The client was closed, or gave up its connection for good. */
export class ClosedError extends StateStoreError {
  readonly code: "Closed";
}
/** The broker's TLS certificate is not acceptable. */
export class UntrustedError extends StateStoreError {
  readonly code: "Untrusted";
}
/** Not in Node: a client of the parent process. */
export class ForkedError extends StateStoreError {
  readonly code: "Forked";
}
/** No response came in time. */
export class TimedOutError extends StateStoreError {
  readonly code: "TimedOut";
}
/** As many requests wait as may wait. */
export class QueueFullError extends StateStoreError {
  readonly code: "QueueFull";
}
/** The request is larger than the broker or MQTT allows. */
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
/** The call was given up through its signal. */
export class CancelledError extends StateStoreError {
  readonly code: "Cancelled";
}
/** A newer SET of the key took its place before it was sent, as `coalesce` asks. */
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
/** Somebody else holds the lock, and the time to wait for it is over. */
export class LockHeldError extends StateStoreError {
  readonly code: "LockHeld";
}
/** The lock is lost, so nothing is done in its name any more. */
export class LockLostError extends StateStoreError {
  readonly code: "LockLost";
}
/** The key of the lock holds something that is not the name of a holder. */
export class NotALockError extends StateStoreError {
  readonly code: "NotALock";
}
/** The clocks of client and store are too far apart. */
export class TimestampSkewError extends StateStoreError {
  readonly code: "TimestampSkew";
}
/** The key is protected by a fencing token, and the request has none. */
export class FencingTokenRequiredError extends StateStoreError {
  readonly code: "FencingTokenRequired";
}
/** The fencing token is too far in the future. */
export class FencingTokenSkewError extends StateStoreError {
  readonly code: "FencingTokenSkew";
}
/** The key is protected by a higher fencing token. */
export class FencingTokenLowerError extends StateStoreError {
  readonly code: "FencingTokenLower";
}
/** The store holds as many keys as it may. */
export class QuotaExceededError extends StateStoreError {
  readonly code: "QuotaExceeded";
}
/** The store does not understand the payload. */
export class RequestSyntaxError extends StateStoreError {
  readonly code: "Syntax";
}
/** This client may not do this to this key. */
export class NotAuthorizedError extends StateStoreError {
  readonly code: "NotAuthorized";
}
/** The store does not know the command. */
export class UnknownCommandError extends StateStoreError {
  readonly code: "UnknownCommand";
}
/** Too few or too many arguments. */
export class WrongArgumentsError extends StateStoreError {
  readonly code: "WrongArguments";
}
/** The request has no timestamp. */
export class MissingTimestampError extends StateStoreError {
  readonly code: "MissingTimestamp";
}
/** The timestamp or fencing token is not one. */
export class MalformedTimestampError extends StateStoreError {
  readonly code: "MalformedTimestamp";
}
/** The key is empty. */
export class EmptyKeyError extends StateStoreError {
  readonly code: "EmptyKey";
}
/** The store refused with a text that this version does not know. */
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
