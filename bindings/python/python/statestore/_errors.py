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
    """Why a call has no result. Each kind of failure is a subclass.

    The message says what was tried, on what, and why that failed.
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
    """Of `Client.set_many`, `Client.delete_many` and `Pipeline.execute`: what became of each key or request, in their order; ``None`` of
    all other calls."""
    operation: int | None = None
    """Which operation of a transaction cannot be, or was refused, from 0, if that is why nothing was done."""

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
        return type(self), (str(self), self.outcome, self.retryable), self.__dict__


class InvalidArgumentError(StateStoreError, ValueError):
    """An argument cannot be used: an empty key, a key or pattern that is longer than the store takes, an expiry of 0
    ms, a name that no lock can have. In C also NULL where that is not allowed, and options of another version.
    """

    kind = "InvalidArgument"
    code = 1


class InvalidSettingsError(StateStoreError, ValueError):
    """The connection settings contradict each other, cannot be parsed, or name a file that cannot be used."""

    kind = "InvalidSettings"
    code = 2


class InvalidHandleError(StateStoreError, ValueError):
    """A handle was freed before, or is of another type. Only in C."""

    kind = "InvalidHandle"
    code = 3


class WrongThreadError(StateStoreError, RuntimeError):
    """The call would wait for itself, as closing a client in one of its own callbacks. Not in Node."""

    kind = "WrongThread"
    code = 4


class InternalError(StateStoreError, RuntimeError):
    """A bug of this library was met, or the system gives no thread."""

    kind = "Internal"
    code = 5


class UnreachableError(StateStoreError, ConnectionError):
    """The broker could not be reached: name not found, connection refused, no answer in time."""

    kind = "Unreachable"
    code = 10


class ConnectionRefusedError(StateStoreError, builtins.ConnectionRefusedError):
    """The broker answered the CONNECT or the SUBSCRIBE with a refusal."""

    kind = "ConnectionRefused"
    code = 11


class NotAuthenticatedError(StateStoreError, PermissionError):
    """The broker does not accept the credentials, or does not allow this client what it needs."""

    kind = "NotAuthenticated"
    code = 12


class SessionLostError(StateStoreError, ConnectionError):
    """The connection was lost, and the session with it, so no response can come any more."""

    kind = "SessionLost"
    code = 13


class ClosedError(StateStoreError, ConnectionError):
    """The client was closed, or gave up its connection for good. In C also the end of what is observed."""

    kind = "Closed"
    code = 14


class UntrustedError(StateStoreError, ConnectionError):
    """The broker's TLS certificate is not acceptable: signed by somebody unknown, expired, or made out to another
    name.
    """

    kind = "Untrusted"
    code = 15


class ForkedError(StateStoreError, RuntimeError):
    """The client was made before this process was forked from another one, which still has it. Not in Node."""

    kind = "Forked"
    code = 16


class TimedOutError(StateStoreError, TimeoutError):
    """No response came in time, there was no connection to send the request on, or nothing happened while it was
    waited for.
    """

    kind = "TimedOut"
    code = 20


class QueueFullError(StateStoreError):
    """As many requests wait as may wait."""

    kind = "QueueFull"
    code = 21


class TooLargeError(StateStoreError, ValueError):
    """The request is larger than the broker or MQTT allows, or the value than `max_value_bytes`."""

    kind = "TooLarge"
    code = 22


class RejectedError(StateStoreError):
    """The broker refused to take the request."""

    kind = "Rejected"
    code = 23


class NoStoreError(StateStoreError, ConnectionError):
    """No state store listens behind the broker."""

    kind = "NoStore"
    code = 24


class CancelledError(StateStoreError):
    """The caller gave the operation up, or interrupted waiting for it. Not in Rust, where the future is dropped."""

    kind = "Cancelled"
    code = 25


class SupersededError(StateStoreError):
    """A newer SET of the key took its place before it was sent, as the option `coalesce` asks while the network is
    away.
    """

    kind = "Superseded"
    code = 26


class InvalidResponseError(StateStoreError):
    """The response is not what the protocol defines."""

    kind = "InvalidResponse"
    code = 30


class RpcError(StateStoreError):
    """The response says that the remote procedure call itself failed."""

    kind = "Rpc"
    code = 31


class UnsupportedError(StateStoreError):
    """The store cannot do that: not every store has conditions on versions, remaining times and transactions."""

    kind = "Unsupported"
    code = 32


class LockHeldError(StateStoreError):
    """Somebody else holds the lock, and the time to wait for it is over."""

    kind = "LockHeld"
    code = 40


class LockLostError(StateStoreError):
    """The lock is lost or was given back, so nothing is done in its name any more."""

    kind = "LockLost"
    code = 41


class NotALockError(StateStoreError):
    """The key of the lock holds something that is not the name of a holder."""

    kind = "NotALock"
    code = 42


class TimestampSkewError(StateStoreError):
    """The store refused: the clocks of client and store are too far apart."""

    kind = "TimestampSkew"
    code = 100


class FencingTokenRequiredError(StateStoreError):
    """The store refused: the key is protected by a fencing token and the request has none."""

    kind = "FencingTokenRequired"
    code = 101


class FencingTokenSkewError(StateStoreError):
    """The store refused: the fencing token is too far in the future."""

    kind = "FencingTokenSkew"
    code = 102


class FencingTokenLowerError(StateStoreError):
    """The store refused: the key is protected by a higher fencing token."""

    kind = "FencingTokenLower"
    code = 103


class QuotaExceededError(StateStoreError):
    """The store refused: it holds as many keys as it may."""

    kind = "QuotaExceeded"
    code = 104


class SyntaxError(StateStoreError):
    """The store refused: the payload is not what it expects."""

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
    """The store refused with a text that this version of the library does not know."""

    kind = "OtherRefusal"
    code = 199


for _error in (StateStoreError, *StateStoreError.__subclasses__()):
    # As programs name it, in tracebacks and warnings.
    _error.__module__ = "statestore"

KINDS: dict[str, type[StateStoreError]] = {error.kind: error for error in StateStoreError.__subclasses__()}
"""The exceptions by the names of their kinds."""
