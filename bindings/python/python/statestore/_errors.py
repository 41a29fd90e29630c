"""The exceptions."""

from __future__ import annotations

import builtins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal

    from statestore._results import Absent, Deleted, Entry, Mismatch, SetOutcome

__all__ = [
    "CancelledError",
    "ClosedError",
    "ConnectionRefusedError",
    "EmptyKeyError",
    "FencingTokenLowerError",
    "FencingTokenRequiredError",
    "FencingTokenSkewError",
    "ForkedError",
    "HostRefusedError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidHandleError",
    "InvalidResponseError",
    "InvalidSettingsError",
    "LockHeldError",
    "LockLostError",
    "MalformedTimestampError",
    "MissingTimestampError",
    "NoStoreError",
    "NotALockError",
    "NotAuthenticatedError",
    "NotAuthorizedError",
    "OtherRefusalError",
    "QueueFullError",
    "QuotaExceededError",
    "RejectedError",
    "RpcError",
    "SessionLostError",
    "StateStoreError",
    "SupersededError",
    "SyntaxError",
    "TimedOutError",
    "TimestampSkewError",
    "TooLargeError",
    "UnknownCommandError",
    "UnreachableError",
    "UnsupportedError",
    "UntrustedError",
    "WrongArgumentsError",
    "WrongThreadError",
]


class StateStoreError(Exception):
    """Base class of all errors of this library. Each kind is a subclass.

    The message has the failed operation, its object, and the reason.
    """

    kind: ClassVar[str] = ""
    """The name of the kind, the same in every language."""
    code: ClassVar[int] = 0
    """The number of the kind, the same in every language."""

    outcome: Literal["not_done", "unknown"]
    """``"not_done"``: it certainly did not happen. ``"unknown"``: it may have happened, or may still happen."""
    retryable: bool
    """Whether the same call may succeed later without anything being changed by hand."""
    results: list[Entry[Any] | SetOutcome | Deleted | Absent | Mismatch | StateStoreError | None] | None = None
    """Results of `Client.set_many`, `Client.delete_many` and `Pipeline.execute`: the result or error of each key or request, in their order;
    ``None`` for all other calls."""
    operation: int | None = None
    """Index of the operation of a transaction that is invalid or was rejected, from 0, if nothing was done for that reason."""

    def __init__(
        self,
        message: str = "",
        outcome: Literal["not_done", "unknown"] = "unknown",
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.retryable = retryable

    def __reduce__(self) -> tuple[Any, ...]:
        state = self.__dict__
        if isinstance(self, OSError) and self.errno is not None:
            # An attribute of the builtin, which is not in the dictionary.
            state = {**state, "errno": self.errno}
        return type(self), (str(self), self.outcome, self.retryable), state


class InvalidArgumentError(StateStoreError, ValueError):
    """An argument is not valid: an empty or overlong key, an expiry of 0 ms, NULL in C; or the value does not fit."""

    kind = "InvalidArgument"
    code = 1


class InvalidSettingsError(StateStoreError, ValueError):
    """The connection settings contradict each other, cannot be parsed, or name an unusable file."""

    kind = "InvalidSettings"
    code = 2


class InvalidHandleError(StateStoreError, ValueError):
    """A handle was freed before, or has another type. Only in C."""

    kind = "InvalidHandle"
    code = 3


class WrongThreadError(StateStoreError, RuntimeError):
    """The call would wait for itself, as in a callback of its own client. Not in Node."""

    kind = "WrongThread"
    code = 4


class InternalError(StateStoreError, RuntimeError):
    """The library detected a bug in itself, or the system provides no thread."""

    kind = "Internal"
    code = 5


class UnreachableError(StateStoreError, ConnectionError):
    """The broker could not be reached: name not found, connection refused, or no response. With `fail_fast` also
    during an outage.
    """

    kind = "Unreachable"
    code = 10


class HostRefusedError(UnreachableError, builtins.ConnectionRefusedError):
    """The host refuses connections at the port, usually because no broker runs there. A kind of `UnreachableError`."""


class ConnectionRefusedError(StateStoreError, ConnectionError):
    """The broker rejected the CONNECT or the SUBSCRIBE."""

    kind = "ConnectionRefused"
    code = 11


class NotAuthenticatedError(StateStoreError, PermissionError):
    """The broker rejected the credentials, or denies this client what it needs."""

    kind = "NotAuthenticated"
    code = 12


class SessionLostError(StateStoreError, ConnectionError):
    """The connection and its session were lost, so no response can arrive."""

    kind = "SessionLost"
    code = 13


class ClosedError(StateStoreError, ConnectionError):
    """The client was closed, or gave up reconnecting. In C also the end of an observer."""

    kind = "Closed"
    code = 14


class UntrustedError(StateStoreError, ConnectionError):
    """The broker's TLS certificate has expired, names another host, or has an unknown signer."""

    kind = "Untrusted"
    code = 15


class ForkedError(StateStoreError, RuntimeError):
    """The client belongs to the parent of this forked process. Not in Node."""

    kind = "Forked"
    code = 16


class TimedOutError(StateStoreError, TimeoutError):
    """No response, no connection or no event came in time."""

    kind = "TimedOut"
    code = 20


class QueueFullError(StateStoreError):
    """The queue of waiting requests is full."""

    kind = "QueueFull"
    code = 21


class TooLargeError(StateStoreError, ValueError):
    """The request exceeds a limit of the broker or MQTT, its value `max_value_bytes`, or more keys match a pattern
    than `max_keys`.
    """

    kind = "TooLarge"
    code = 22


class RejectedError(StateStoreError):
    """The broker rejected the request."""

    kind = "Rejected"
    code = 23


class NoStoreError(StateStoreError, ConnectionError):
    """No state store listens behind the broker."""

    kind = "NoStore"
    code = 24


class CancelledError(StateStoreError):
    """The caller cancelled the operation or its wait. Not in Rust."""

    kind = "Cancelled"
    code = 25


class SupersededError(StateStoreError):
    """With `coalesce`, a newer SET of the key replaced this one before it was sent."""

    kind = "Superseded"
    code = 26


class InvalidResponseError(StateStoreError):
    """The response does not follow the protocol."""

    kind = "InvalidResponse"
    code = 30


class RpcError(StateStoreError):
    """The response reports a failed remote procedure call."""

    kind = "Rpc"
    code = 31


class UnsupportedError(StateStoreError):
    """The store lacks what the call needs, or the value belongs to an unfinished transaction."""

    kind = "Unsupported"
    code = 32


class LockHeldError(StateStoreError):
    """Another client still held the lock when the wait ended."""

    kind = "LockHeld"
    code = 40


class LockLostError(StateStoreError):
    """The lock was lost or given back, so operations under it fail."""

    kind = "LockLost"
    code = 41


class NotALockError(StateStoreError):
    """The lock's key holds something other than a holder's name."""

    kind = "NotALock"
    code = 42


class TimestampSkewError(StateStoreError):
    """The store refused: the clocks of client and store are too far apart."""

    kind = "TimestampSkew"
    code = 100


class FencingTokenRequiredError(StateStoreError):
    """The store refused: a fencing token protects the key, and the request has none."""

    kind = "FencingTokenRequired"
    code = 101


class FencingTokenSkewError(StateStoreError):
    """The store refused: the fencing token is too far in the future."""

    kind = "FencingTokenSkew"
    code = 102


class FencingTokenLowerError(StateStoreError):
    """The store refused: a higher fencing token protects the key."""

    kind = "FencingTokenLower"
    code = 103


class QuotaExceededError(StateStoreError):
    """The store refused: a quota of keys, memory or watches is used up."""

    kind = "QuotaExceeded"
    code = 104


class SyntaxError(StateStoreError):
    """The store refused: the payload has an unexpected form."""

    kind = "Syntax"
    code = 105


class NotAuthorizedError(StateStoreError, PermissionError):
    """The store refused: this client may not do this to this key."""

    kind = "NotAuthorized"
    code = 106


class UnknownCommandError(StateStoreError):
    """The store refused: it does not know the command."""

    kind = "UnknownCommand"
    code = 107


class WrongArgumentsError(StateStoreError):
    """The store refused: too few or too many arguments."""

    kind = "WrongArguments"
    code = 108


class MissingTimestampError(StateStoreError):
    """The store refused: the request has no timestamp."""

    kind = "MissingTimestamp"
    code = 109


class MalformedTimestampError(StateStoreError):
    """The store refused: the timestamp or fencing token is not an HLC."""

    kind = "MalformedTimestamp"
    code = 110


class EmptyKeyError(StateStoreError, ValueError):
    """The store refused: the key is empty."""

    kind = "EmptyKey"
    code = 111


class OtherRefusalError(StateStoreError):
    """The store refused with a text that this library does not know."""

    kind = "OtherRefusal"
    code = 199


for _error in (StateStoreError, HostRefusedError, *StateStoreError.__subclasses__()):
    # As programs name it, in tracebacks and warnings.
    _error.__module__ = "statestore"

KINDS: dict[str, type[StateStoreError]] = {error.kind: error for error in StateStoreError.__subclasses__()}
"""The exceptions by the names of their kinds."""
