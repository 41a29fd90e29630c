"""Client for the Azure IoT Operations state store, over MQTT 5.

    import statestore

    with statestore.connect("mqtt://localhost") as client:
        client.set("greeting", "hello")
        print(client.get("greeting").value)

Calls block, without the interpreter lock, and can be made from any number of threads. `statestore.aio` has the same calls for
asyncio. An absent key and a condition that is not met are results; what goes wrong is a `StateStoreError`.
"""

from statestore import _errors, _results
from statestore._blocking import Client, Election, Guard, Leadership, Lease, Observer, Scan, connect
from statestore._errors import *  # noqa: F403
from statestore._native import Hlc, __version__
from statestore._results import *  # noqa: F403

__all__ = [
    "Client",
    "Election",
    "Guard",
    "Hlc",
    "Leadership",
    "Lease",
    "Observer",
    "Scan",
    "__version__",
    "connect",
]
__all__ += _errors.__all__
__all__ += _results.__all__
