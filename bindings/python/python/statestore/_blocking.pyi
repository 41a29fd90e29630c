# The types of the asyncio face are made from this file: see `tools/aio_stub.py`.
from collections.abc import Callable, Iterable, Iterator
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
    Mismatch,
    Nobody,
    Observation,
    Release,
    SetOutcome,
    State,
    Unchanged,
)

V = TypeVarWithDefault("V", bytes, str, default=bytes)
T = TypeVar("T")
O = TypeVar("O")

Data: TypeAlias = str | bytes | bytearray | memoryview
Time: TypeAlias = float | timedelta
Path: TypeAlias = str | PathLike[str]
Condition: TypeAlias = Literal["always", "if_absent", "if_absent_or_equal"]
Retry: TypeAlias = Literal["safe", "always", "never"]
Overflow: TypeAlias = Literal["latest", "all"] | int
Renewal: TypeAlias = Literal["third", "manual"] | Time

class Client(Generic[V]):
    def client_id(self) -> str: ...
    def counters(self) -> Counters: ...
    def state(self) -> State: ...
    def states(self, callback: Callable[[State], object] | None = None) -> Observer[State]: ...
    def get(self, key: Data, *, timeout: Time | None = None) -> Entry[V] | None: ...
    def get_many(
        self, keys: Iterable[Data], *, timeout: Time | None = None
    ) -> list[Entry[V] | None]: ...
    def set(
        self,
        key: Data,
        value: Data,
        *,
        condition: Condition = "always",
        expires_in: Time | None = None,
        fencing_token: Hlc | None = None,
        persist: bool = False,
        timeout: Time | None = None,
        retry: Retry = "safe",
    ) -> SetOutcome: ...
    def delete(
        self,
        key: Data,
        *,
        fencing_token: Hlc | None = None,
        timeout: Time | None = None,
        retry: Retry = "safe",
    ) -> Deleted | Absent: ...
    def vdel(
        self,
        key: Data,
        value: Data,
        *,
        fencing_token: Hlc | None = None,
        timeout: Time | None = None,
        retry: Retry = "safe",
    ) -> Deleted | Absent | Mismatch: ...
    def scan(self, pattern: Data, *, timeout: Time | None = None) -> Scan[V]: ...
    def observe(
        self,
        key: Data,
        callback: Callable[[Observation[V]], object] | None = None,
        *,
        overflow: Overflow = "latest",
        timeout: Time | None = None,
    ) -> Observer[Observation[V]]: ...
    def update(
        self,
        key: Data,
        change: Callable[[Entry[V] | None], Data | None],
        *,
        expires_in: Time | None = None,
        persist: bool = False,
        timeout: Time | None = None,
    ) -> Applied | Unchanged: ...
    def lease(
        self,
        name: Data,
        *,
        duration: Time = 10.0,
        renewal: Renewal = "third",
        holder: Data | None = None,
        timeout: Time | None = None,
        foreign_lease_max: Time = 3600.0,
    ) -> Lease[V]: ...
    def lock(
        self,
        name: Data,
        *,
        duration: Time = 10.0,
        renewal: Renewal = "third",
        holder: Data | None = None,
        timeout: Time | None = None,
        foreign_lease_max: Time = 3600.0,
        wait: Time | None = None,
    ) -> Guard[V]: ...
    def with_lock(
        self,
        name: Data,
        work: Callable[[Guard[V]], T],
        *,
        duration: Time = 10.0,
        renewal: Renewal = "third",
        holder: Data | None = None,
        timeout: Time | None = None,
        foreign_lease_max: Time = 3600.0,
        wait: Time | None = None,
    ) -> T: ...
    def election(
        self,
        name: Data,
        *,
        duration: Time = 10.0,
        renewal: Renewal = "third",
        holder: Data | None = None,
        timeout: Time | None = None,
        foreign_lease_max: Time = 3600.0,
        wait: Time | None = None,
    ) -> Election[V]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

class Observer(Generic[O]):
    @property
    def key(self) -> bytes | str | None: ...
    def next(self, *, timeout: Time | None = None) -> O | None: ...
    def error(self) -> StateStoreError | None: ...
    def close(self) -> None: ...
    def __iter__(self) -> Iterator[O]: ...
    def __next__(self) -> O: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

class Scan(Generic[V]):
    def next_page(self) -> list[V] | None: ...
    def __iter__(self) -> Iterator[V]: ...
    def __next__(self) -> V: ...

class Lease(Generic[V]):
    @property
    def name(self) -> V: ...
    def acquire(self) -> Guard[V] | Held[V]: ...
    def release(self) -> Release: ...
    def holder(self) -> Holding[V] | None: ...
    def observe(
        self, callback: Callable[[Holding[V] | Nobody], object] | None = None
    ) -> Observer[Holding[V] | Nobody]: ...

class Guard(Generic[V]):
    @property
    def name(self) -> V: ...
    @property
    def holder(self) -> Holder[V]: ...
    @property
    def token(self) -> Hlc: ...
    def is_valid(self) -> bool: ...
    def lost(self, *, timeout: Time | None = None) -> bool: ...
    def reason(self) -> StateStoreError | None: ...
    def renew(self) -> Hlc: ...
    def release(self) -> Release: ...
    def leave(self) -> None: ...
    def set(
        self,
        key: Data,
        value: Data,
        *,
        condition: Condition = "always",
        expires_in: Time | None = None,
        persist: bool = False,
        timeout: Time | None = None,
        retry: Retry = "safe",
    ) -> SetOutcome: ...
    def delete(
        self, key: Data, *, timeout: Time | None = None, retry: Retry = "safe"
    ) -> Deleted | Absent: ...
    def vdel(
        self, key: Data, value: Data, *, timeout: Time | None = None, retry: Retry = "safe"
    ) -> Deleted | Absent | Mismatch: ...
    def __bool__(self) -> Literal[True]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

class Election(Generic[V]):
    @property
    def name(self) -> V: ...
    def campaign(self, value: Data) -> Leadership[V]: ...
    def leader(self) -> Leader[V] | None: ...
    def observe(
        self, callback: Callable[[Leader[V] | Nobody], object] | None = None
    ) -> Observer[Leader[V] | Nobody]: ...

class Leadership(Generic[V]):
    @property
    def guard(self) -> Guard[V]: ...
    def proclaim(self, value: Data) -> SetOutcome: ...
    def resign(self) -> Release: ...
    def __enter__(self) -> Self: ...
    def __exit__(
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
    session_expiry: Time | None = None,
    keep_alive: Time | None = None,
    ping_timeout: Time | None = None,
    connect_timeout: Time | None = None,
    request_timeout: Time | None = None,
    max_in_flight: int | None = None,
    max_queued: int | None = None,
    max_buffered_bytes: int | None = None,
    max_packet_bytes: int | None = None,
    max_value_bytes: int | None = None,
    reconnect_delay_min: Time | None = None,
    reconnect_delay_max: Time | None = None,
    user_name: str | None = None,
    password: str | bytes | None = None,
    password_file: Path | None = None,
    sat_file: Path | None = None,
    tls: bool | None = None,
    ca_file: Path | None = None,
    cert_file: Path | None = None,
    key_file: Path | None = None,
    key_password_file: Path | None = None,
    server_name: str | None = None,
) -> Client[bytes]: ...
@overload
def connect(
    url: str | None = None,
    *,
    env: bool = False,
    encoding: str,
    client_id: str | None = None,
    clean_start: bool | None = None,
    session_expiry: Time | None = None,
    keep_alive: Time | None = None,
    ping_timeout: Time | None = None,
    connect_timeout: Time | None = None,
    request_timeout: Time | None = None,
    max_in_flight: int | None = None,
    max_queued: int | None = None,
    max_buffered_bytes: int | None = None,
    max_packet_bytes: int | None = None,
    max_value_bytes: int | None = None,
    reconnect_delay_min: Time | None = None,
    reconnect_delay_max: Time | None = None,
    user_name: str | None = None,
    password: str | bytes | None = None,
    password_file: Path | None = None,
    sat_file: Path | None = None,
    tls: bool | None = None,
    ca_file: Path | None = None,
    cert_file: Path | None = None,
    key_file: Path | None = None,
    key_password_file: Path | None = None,
    server_name: str | None = None,
) -> Client[str]: ...
