# What the faces are made of is typed where it is public: in `_blocking.pyi` and `aio.pyi`.
from collections.abc import Callable
from typing import Any, final

__version__: str

@final
class Hlc:
    """The version of a value, or a fencing token: a timestamp of a hybrid logical clock.

    Versions are ordered: of two versions of a key, the newer is the greater one.

        >>> from statestore import Hlc
        >>> version = Hlc("001696374425000:00001:store")
        >>> version.wall_ms, version.counter, version.node_id
        (1696374425000, 1, 'store')
        >>> version < Hlc("001696374425000:00002:store")
        True
        >>> str(version)
        '001696374425000:00001:store'
    """

    def __new__(cls, text: str, /) -> Hlc: ...
    @property
    def wall_ms(self) -> int:
        """Milliseconds since 1970, by the clock of the store."""
    @property
    def counter(self) -> int:
        """Tells timestamps of the same millisecond apart."""
    @property
    def node_id(self) -> str:
        """Id of the node whose clock it is."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: Hlc, /) -> bool: ...
    def __le__(self, other: Hlc, /) -> bool: ...
    def __gt__(self, other: Hlc, /) -> bool: ...
    def __ge__(self, other: Hlc, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class IfVersion:
    """A condition of `Client.set`: only if the key has this version."""
    @property
    def version(self) -> Hlc:
        """The version."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def if_version(version: Hlc, /) -> IfVersion:
    """The condition that a key has this version, for `Client.set`. On a store without such conditions
    (`Capabilities.conditions`), the value that had the version is compared, under a fence.
    """

class Client:
    """A client of the state store."""
    def _callback_thread(self) -> int | None: ...

def forward_log(level: int, callback: Callable[[int, str, str, str, int], object], /) -> None:
    """Calls ``callback(level, module, message, file, line)`` for what is logged, if it is at least as important as ``level``."""
def check_interpreter() -> None:
    """Refuses other interpreters of the process than the first one: they would share the classes of this module."""

def drop_callbacks(client: Client, /) -> None:
    """Ends the callbacks of a client that is about to be collected, before its garbage is taken apart."""

def close_each(clients: list[Client], seconds: float, /) -> list[Client]:
    """Closes clients, one after the other, and returns those that a callback keeps from that for so many seconds together."""

def stop_log() -> None:
    """Logs nothing any more, and waits until what was logged before has been told."""
def end_callbacks() -> None:
    """Begins no further callback, in any client."""
