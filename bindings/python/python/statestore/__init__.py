"""Client for the Azure IoT Operations state store, over MQTT 5.

    import statestore

    with statestore.connect("mqtt://localhost") as client:
        client.set("greeting", "hello")
        print(client.get("greeting").value)

Calls block, without the interpreter lock, and can be made from any number of threads. `statestore.aio` has the same calls for
asyncio. An absent key and a condition that is not met are results; failures raise a `StateStoreError`.

``from statestore import *`` brings no name of a builtin: `ConnectionRefusedError` and `SyntaxError` of this module are not among what
it brings, but `BrokerRefusedError` and `RequestSyntaxError`, which are the same classes. Neither is the builtin of that name: a refused
TCP connection is a `HostRefusedError`, which is also a `ConnectionRefusedError` of Python.
"""

from statestore._native import check_interpreter as _check_interpreter

_check_interpreter()

from statestore._blocking import (
    Client,
    Election,
    Guard,
    Leadership,
    Lease,
    Mirror,
    MirrorChanges,
    Observer,
    Pipeline,
    Scan,
    Transaction,
    connect,
)
from statestore._errors import *  # noqa: F403
from statestore._errors import ConnectionRefusedError as BrokerRefusedError
from statestore._errors import SyntaxError as RequestSyntaxError
from statestore._native import Hlc, IfVersion, __version__, if_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from statestore._results import *  # noqa: F403
    from statestore._state import *  # noqa: F403

__all__ = [
    "Absent",
    "Applied",
    "BrokerRefusedError",
    "CancelledError",
    "Capabilities",
    "Client",
    "ClosedError",
    "Complete",
    "Counters",
    "Deleted",
    "Election",
    "EmptyKeyError",
    "Entries",
    "Entry",
    "FencingTokenLowerError",
    "FencingTokenRequiredError",
    "FencingTokenSkewError",
    "ForkedError",
    "Guard",
    "Held",
    "Hlc",
    "IfVersion",
    "Holder",
    "Holding",
    "HostRefusedError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidHandleError",
    "InvalidResponseError",
    "InvalidSettingsError",
    "Lagged",
    "Leader",
    "Leadership",
    "Lease",
    "LockHeldError",
    "LockLostError",
    "LostReason",
    "MalformedTimestampError",
    "MatchDeleted",
    "MatchObservation",
    "MatchSet",
    "Mirror",
    "MirrorChanges",
    "Mismatch",
    "MissingTimestampError",
    "NoHolder",
    "NoStoreError",
    "NotALockError",
    "NotAuthenticatedError",
    "NotAuthorizedError",
    "Observation",
    "Observer",
    "Pipeline",
    "OtherRefusalError",
    "QueueFullError",
    "QuotaExceededError",
    "RejectedError",
    "Release",
    "RequestSyntaxError",
    "Resync",
    "Resynced",
    "RpcError",
    "Scan",
    "SessionLostError",
    "Set",
    "SetOutcome",
    "State",
    "StateStoreError",
    "SupersededError",
    "TimedOutError",
    "TimestampSkewError",
    "TooLargeError",
    "Transaction",
    "TransactionOutcome",
    "Unchanged",
    "UnknownCommandError",
    "UnreachableError",
    "UnsupportedError",
    "UntrustedError",
    "WrongArgumentsError",
    "WrongThreadError",
    "__version__",
    "connect",
    "if_version",
]


# Type checkers would take every name for one of this module otherwise.
if not TYPE_CHECKING:

    def __getattr__(name):
        """The classes of results, which come with the first client: what they are made of takes longest to import."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from statestore import _results, _state

        found = getattr(_state if name in _state.__all__ else _results, name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
