# Made by `tools/aio_stub.py` from `_blocking.pyi`.
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import Generic, Literal, TypeVar, overload

from typing_extensions import Self, TypeAlias
from typing_extensions import TypeVar as TypeVarWithDefault

from statestore._errors import StateStoreError
from statestore._native import Hlc
from statestore._results import (
    Absent,
    Applied,
    Counters,
    Deleted,
    Entry,
    Held,
    Holder,
    Holding,
    Leader,
    LostReason,
    Mismatch,
    Nobody,
    Observation,
    Release,
    SetOutcome,
    State,
    Unchanged,
)

_V = TypeVarWithDefault("_V", bytes, str, default=bytes)
_T = TypeVar("_T")
_O = TypeVar("_O")
_T_co = TypeVar("_T_co", covariant=True)

_Data: TypeAlias = str | bytes | bytearray | memoryview
_Time: TypeAlias = float | timedelta
_Path: TypeAlias = str | PathLike[str]
_Condition: TypeAlias = Literal["always", "if_absent", "if_absent_or_equal"]
_Retry: TypeAlias = Literal["safe", "always", "never"]
_Overflow: TypeAlias = Literal["latest", "all"] | int
_Renewal: TypeAlias = Literal["third", "manual"] | _Time

__all__ = ["Client", "Election", "Guard", "Leadership", "Lease", "Observer", "Scan", "connect"]

class _Opening(Coroutine[object, object, _T_co], Generic[_T_co]):
    """A coroutine whose result is a context manager: ``await`` it, or use it in ``async with``."""

    def __init__(self, coroutine: Coroutine[object, object, _T_co]) -> None: ...
    def __await__(self) -> Generator[object, object, _T_co]: ...
    def send(self, value: object) -> object: ...
    def throw(self, *args: object) -> object: ...
    def close(self) -> None: ...
    async def __aenter__(self) -> _T_co: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

class Client(Generic[_V]):
    def client_id(self) -> str: ...
    def counters(self) -> Counters: ...
    def state(self) -> State: ...
    def states(self, callback: Callable[[State], object] | None = None) -> Observer[State]: ...
    async def get(self, key: _Data, *, timeout: _Time | None = None) -> Entry[_V] | None: ...
    async def get_many(self, keys: Iterable[_Data], *, timeout: _Time | None = None) -> list[Entry[_V] | None]: ...
    async def set(
        self,
        key: _Data,
        value: _Data,
        *,
        condition: _Condition = "always",
        expires_in: _Time | None = None,
        fencing_token: Hlc | None = None,
        persist: bool = False,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> SetOutcome: ...
    async def set_many(
        self,
        values: Mapping[str, _Data] | Mapping[bytes, _Data] | Iterable[tuple[_Data, _Data]],
        *,
        condition: _Condition = "always",
        expires_in: _Time | None = None,
        fencing_token: Hlc | None = None,
        persist: bool = False,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> list[SetOutcome]: ...
    async def delete_many(
        self,
        keys: Iterable[_Data],
        *,
        fencing_token: Hlc | None = None,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> list[Deleted | Absent]: ...
    async def delete(
        self,
        key: _Data,
        *,
        fencing_token: Hlc | None = None,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> Deleted | Absent: ...
    async def vdel(
        self,
        key: _Data,
        value: _Data,
        *,
        fencing_token: Hlc | None = None,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> Deleted | Absent | Mismatch: ...
    def scan(self, pattern: _Data, *, timeout: _Time | None = None) -> Scan[_V]: ...
    def observe(
        self,
        key: _Data,
        callback: Callable[[Observation[_V]], object] | None = None,
        *,
        overflow: _Overflow = "latest",
        timeout: _Time | None = None,
    ) -> _Opening[Observer[Observation[_V]]]: ...
    async def update(
        self,
        key: _Data,
        change: Callable[[Entry[_V] | None], _Data | None | Awaitable[_Data | None]],
        *,
        expires_in: _Time | None = None,
        persist: bool = False,
        timeout: _Time | None = None,
    ) -> Applied | Unchanged: ...
    def lease(
        self,
        name: _Data,
        *,
        duration: _Time = 10.0,
        renewal: _Renewal = "third",
        holder: _Data | None = None,
        timeout: _Time | None = None,
        foreign_lease_max: _Time = 3600.0,
    ) -> Lease[_V]: ...
    def lock(
        self,
        name: _Data,
        *,
        duration: _Time = 10.0,
        renewal: _Renewal = "third",
        holder: _Data | None = None,
        timeout: _Time | None = None,
        foreign_lease_max: _Time = 3600.0,
        wait: _Time | None = None,
    ) -> _Opening[Guard[_V]]: ...
    async def with_lock(
        self,
        name: _Data,
        work: Callable[[Guard[_V]], Awaitable[_T]],
        *,
        duration: _Time = 10.0,
        renewal: _Renewal = "third",
        holder: _Data | None = None,
        timeout: _Time | None = None,
        foreign_lease_max: _Time = 3600.0,
        wait: _Time | None = None,
    ) -> _T: ...
    def election(
        self,
        name: _Data,
        *,
        duration: _Time = 10.0,
        renewal: _Renewal = "third",
        holder: _Data | None = None,
        timeout: _Time | None = None,
        foreign_lease_max: _Time = 3600.0,
        wait: _Time | None = None,
    ) -> Election[_V]: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def __del__(self) -> None: ...

class Observer(Generic[_O]):
    @property
    def key(self) -> bytes | str | None: ...
    async def next(self, *, timeout: _Time | None = None) -> _O | None: ...
    def lost_reason(self) -> LostReason | None: ...
    def error(self) -> StateStoreError | None: ...
    async def close(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[_O]: ...
    async def __anext__(self) -> _O: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

class Scan(Generic[_V]):
    async def next_page(self) -> list[_V] | None: ...
    def __aiter__(self) -> AsyncIterator[_V]: ...
    async def __anext__(self) -> _V: ...

class Lease(Generic[_V]):
    @property
    def name(self) -> _V: ...
    async def acquire(self) -> Guard[_V] | Held[_V]: ...
    async def release(self) -> Release: ...
    async def holder(self) -> Holding[_V] | None: ...
    def observe(
        self, callback: Callable[[Holding[_V] | Nobody], object] | None = None
    ) -> _Opening[Observer[Holding[_V] | Nobody]]: ...

class Guard(Generic[_V]):
    @property
    def name(self) -> _V: ...
    @property
    def holder(self) -> Holder[_V]: ...
    @property
    def token(self) -> Hlc: ...
    def is_valid(self) -> bool: ...
    async def lost(self, *, timeout: _Time | None = None) -> LostReason | None: ...
    def lost_reason(self) -> LostReason | None: ...
    def reason(self) -> StateStoreError | None: ...
    async def renew(self) -> Hlc: ...
    async def release(self) -> Release: ...
    async def leave(self) -> None: ...
    async def set(
        self,
        key: _Data,
        value: _Data,
        *,
        condition: _Condition = "always",
        expires_in: _Time | None = None,
        persist: bool = False,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> SetOutcome: ...
    async def delete(self, key: _Data, *, timeout: _Time | None = None, retry: _Retry = "safe") -> Deleted | Absent: ...
    async def vdel(
        self, key: _Data, value: _Data, *, timeout: _Time | None = None, retry: _Retry = "safe"
    ) -> Deleted | Absent | Mismatch: ...
    def __bool__(self) -> Literal[True]: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

class Election(Generic[_V]):
    @property
    def name(self) -> _V: ...
    def campaign(self, value: _Data) -> _Opening[Leadership[_V]]: ...
    async def leader(self) -> Leader[_V] | None: ...
    def observe(
        self, callback: Callable[[Leader[_V] | Nobody], object] | None = None
    ) -> _Opening[Observer[Leader[_V] | Nobody]]: ...

class Leadership(Generic[_V]):
    @property
    def guard(self) -> Guard[_V]: ...
    async def proclaim(self, value: _Data) -> SetOutcome: ...
    async def resign(self) -> Release: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@overload
def connect(
    url: str | None = None,
    *,
    env: bool = False,
    encoding: None = None,
    client_id: str | None = None,
    clean_start: bool | None = None,
    session_expiry: _Time | None = None,
    keep_alive: _Time | None = None,
    ping_timeout: _Time | None = None,
    connect_timeout: _Time | None = None,
    request_timeout: _Time | None = None,
    max_in_flight: int | None = None,
    max_queued: int | None = None,
    max_buffered_bytes: int | None = None,
    max_packet_bytes: int | None = None,
    max_value_bytes: int | None = None,
    reconnect_delay_min: _Time | None = None,
    reconnect_delay_max: _Time | None = None,
    reconnect_limit: _Time | None = None,
    user_name: str | None = None,
    password: str | bytes | None = None,
    password_file: _Path | None = None,
    sat_file: _Path | None = None,
    allow_plaintext_credentials: bool | None = None,
    tls: bool | None = None,
    ca_file: _Path | None = None,
    cert_file: _Path | None = None,
    key_file: _Path | None = None,
    key_password_file: _Path | None = None,
    server_name: str | None = None,
) -> _Opening[Client[bytes]]: ...
@overload
def connect(
    url: str | None = None,
    *,
    env: bool = False,
    encoding: str,
    client_id: str | None = None,
    clean_start: bool | None = None,
    session_expiry: _Time | None = None,
    keep_alive: _Time | None = None,
    ping_timeout: _Time | None = None,
    connect_timeout: _Time | None = None,
    request_timeout: _Time | None = None,
    max_in_flight: int | None = None,
    max_queued: int | None = None,
    max_buffered_bytes: int | None = None,
    max_packet_bytes: int | None = None,
    max_value_bytes: int | None = None,
    reconnect_delay_min: _Time | None = None,
    reconnect_delay_max: _Time | None = None,
    reconnect_limit: _Time | None = None,
    user_name: str | None = None,
    password: str | bytes | None = None,
    password_file: _Path | None = None,
    sat_file: _Path | None = None,
    allow_plaintext_credentials: bool | None = None,
    tls: bool | None = None,
    ca_file: _Path | None = None,
    cert_file: _Path | None = None,
    key_file: _Path | None = None,
    key_password_file: _Path | None = None,
    server_name: str | None = None,
) -> _Opening[Client[str]]: ...
