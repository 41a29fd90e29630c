"""Client for the Azure IoT Operations state store, over MQTT 5.

    import statestore

    with statestore.connect("mqtt://localhost") as client:
        client.set("greeting", "hello")
        print(client.get("greeting").value)

Calls block, without the interpreter lock, and can be made from any number of threads. `statestore.aio` has the same calls for
asyncio. An absent key and a condition that is not met are results; what goes wrong is a `StateStoreError`.
"""

from statestore._blocking import Client, Election, Guard, Leadership, Lease, Observer, Scan, connect
from statestore._errors import *  # noqa: F403
from statestore._native import Hlc, __version__
from statestore._results import *  # noqa: F403

__all__ = [
    "Absent",
    "Applied",
    "CancelledError",
    "Client",
    "ClosedError",
    "ConnectionRefusedError",
    "Counters",
    "Deleted",
    "Election",
    "EmptyKeyError",
    "Entry",
    "FencingTokenLowerError",
    "FencingTokenRequiredError",
    "FencingTokenSkewError",
    "ForkedError",
    "Guard",
    "Held",
    "Hlc",
    "Holder",
    "Holding",
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
    "Mismatch",
    "MissingTimestampError",
    "NoStoreError",
    "Nobody",
    "NotALockError",
    "NotAuthenticatedError",
    "NotAuthorizedError",
    "Observation",
    "Observer",
    "OtherRefusalError",
    "QueueFullError",
    "QuotaExceededError",
    "RejectedError",
    "Release",
    "Resync",
    "RpcError",
    "Scan",
    "SessionLostError",
    "Set",
    "SetOutcome",
    "State",
    "StateStoreError",
    "SyntaxError",
    "TimedOutError",
    "TimestampSkewError",
    "TooLargeError",
    "Unchanged",
    "UnknownCommandError",
    "UnreachableError",
    "UntrustedError",
    "WrongArgumentsError",
    "WrongThreadError",
    "__version__",
    "connect",
]
