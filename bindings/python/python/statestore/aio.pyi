# Made by `tools/aio_stub.py` from `_blocking.pyi`.
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from typing import Generic, Literal, TypeVar, overload

from typing_extensions import Self, Unpack
from typing_extensions import TypeVar as TypeVarWithDefault

from statestore._errors import StateStoreError
from statestore._native import Hlc
from statestore.options import LeaseOptions, LockOptions, Settings
from statestore.options import Condition as _Condition
from statestore.options import Data as _Data
from statestore.options import Overflow as _Overflow
from statestore.options import Retry as _Retry
from statestore.options import Time as _Time
from statestore._results import (
    Absent,
    Applied,
    Capabilities,
    Counters,
    Deleted,
    Entries,
    Entry,
    Held,
    Holder,
    Holding,
    Leader,
    LostReason,
    MatchObservation,
    Mismatch,
    NoHolder,
    Observation,
    Release,
    SetOutcome,
    TransactionOutcome,
    Unchanged,
)
from statestore._state import State

_V = TypeVarWithDefault("_V", bytes, str, default=bytes)
_T = TypeVar("_T")
_O = TypeVar("_O")
_T_co = TypeVar("_T_co", covariant=True)
_I = TypeVarWithDefault("_I", default=bytes)

__all__ = [
    "Client",
    "Election",
    "Guard",
    "Leadership",
    "Lease",
    "Mirror",
    "MirrorChanges",
    "Observer",
    "Pipeline",
    "Scan",
    "Transaction",
    "connect",
]

class _AsyncContextCoroutine(Coroutine[object, object, _T_co], Generic[_T_co]):
    """A coroutine whose result is a context manager: ``await`` it, or use it in ``async with``."""

    def __init__(self, coroutine: Coroutine[object, object, _T_co]) -> None: ...
    def __await__(self) -> Generator[object, object, _T_co]: ...
    def send(self, value: object) -> object: ...
    def throw(self, *args: object) -> object: ...
    def close(self) -> None: ...
    async def __aenter__(self) -> _T_co: ...
    async def __aexit__(self, *_: object) -> None: ...

class Client(Generic[_V]):
    """A client of the state store."""
    def client_id(self) -> str:
        """Returns the MQTT client id, also after the client was closed."""
    def counters(self) -> Counters:
        """Returns the counters of the client, until it was closed: `Counters`.

        >>> _ = await client.get("greeting")
        >>> client.counters().completed
        1
        """
    def state(self) -> State:
        """Returns the state of the connection: a `State`. After `close` its kind is ``"closed"``.

        >>> client.state()
        State(kind='connected', reason=None, lost_reason=None)
        """
    def states(self, callback: Callable[[State], object] | None = None) -> Observer[State]:
        """Observes the state of the connection: first the present state, then each change. A callback is called for each state; see
        `observe`.
        """
    async def get(
        self, key: _Data, *, remaining: bool = False, eventual: bool = False, timeout: _Time | None = None
    ) -> Entry[_V] | None:
        """Reads a key: an `Entry`, or ``None`` if the key is absent. With ``remaining``, its ``expires_in`` says how much time it
        has left, which not every store can tell (`Capabilities.remaining_time`). With ``eventual``, it may be what the key held a moment
        ago: where several servers share the entries, that saves the one that is asked a round trip to them. A store that makes no
        difference answers what the key holds.

            >>> await client.get("greeting") is None
            True
            >>> _ = await client.set("greeting", "hello")
            >>> await client.get("greeting")  # doctest: +ELLIPSIS
            Entry(value=b'hello', version=Hlc('...'))
        """
    async def get_many(
        self, keys: Iterable[_Data], *, remaining: bool = False, eventual: bool = False, timeout: _Time | None = None
    ) -> Entries[_V]:
        """Reads several keys. Returns `Entries`: a list of `Entry` or ``None``, in their order. Its ``snapshot`` is true if the store
        returned all of them in one response, so that no write happened in between. This needs `Capabilities.max_get_keys`, and values
        of 1 MiB together at most. With ``remaining`` or ``eventual``, each key has a request of its own.

            >>> _ = await client.set("a", "1")
            >>> entries = await client.get_many(["a", "b"])
            >>> [entry and entry.value for entry in entries]
            [b'1', None]
            >>> entries.snapshot
            True
        """
    async def set(
        self,
        key: _Data,
        value: _Data,
        *,
        condition: _Condition = "always",
        expires_in: _Time | None = None,
        fencing_token: Hlc | None = None,
        persist: bool = False,
        coalesce: bool = False,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> SetOutcome:
        """Stores a value: a `SetOutcome`, which is true if it was applied.

        ``condition`` is ``"always"``, ``"if_absent"``, ``"if_absent_or_equal"`` or `if_version` of a version; ``expires_in`` is at least a
        millisecond; ``retry`` is ``"safe"``, ``"always"`` or ``"never"``: whether the request is sent again when the
        session was lost before its response came. With ``coalesce``, only the newest value of the key waits while there is no
        connection: an older call fails with `SupersededError` then.

            >>> await client.set("greeting", "hello")  # doctest: +ELLIPSIS
            SetOutcome(applied=True, version=Hlc('...'))
            >>> (await client.set("greeting", "other", condition="if_absent")).applied
            False
            >>> from statestore import if_version
            >>> version = (await client.get("greeting")).version
            >>> (await client.set("greeting", "hi", condition=if_version(version))).applied
            True
            >>> (await client.set("greeting", "hey", condition=if_version(version))).applied
            False
        """
    async def set_many(
        self,
        values: Mapping[str, _Data] | Mapping[bytes, _Data] | Iterable[tuple[_Data, _Data]],
        *,
        condition: _Condition = "always",
        expires_in: _Time | None = None,
        fencing_token: Hlc | None = None,
        persist: bool = False,
        coalesce: bool = False,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> list[SetOutcome]:
        """Stores several values, given as a mapping or as pairs: a list with the `SetOutcome` of each, in their order. The
        requests are sent together, in their order; the options are those of `set`, for each, without `if_version`.

        This is no transaction: each value is stored, or not, by itself. If any fails, the others are carried out nevertheless,
        and the first failure is raised; its `results` has for each value the outcome or the error.

            >>> [outcome.applied for outcome in await client.set_many({"a": "1", "b": "2"}, condition="if_absent")]
            [True, True]
        """
    async def delete_many(
        self,
        keys: Iterable[_Data],
        *,
        fencing_token: Hlc | None = None,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> list[Deleted | Absent]:
        """Deletes several keys: a list with `Deleted` or `Absent` for each, in their order. The requests are sent together; the
        options are those of `delete`, for each, without ``if_version``. Failures are reported as by `set_many`.

            >>> _ = await client.set("a", "1")
            >>> [bool(outcome) for outcome in await client.delete_many(["a", "b"])]
            [True, False]
        """
    async def delete(
        self,
        key: _Data,
        *,
        fencing_token: Hlc | None = None,
        if_version: Hlc | None = None,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> Deleted | Absent | Mismatch:
        """Deletes a key: `Deleted` (true), or `Absent` (false).

        With ``if_version``, only if the key has this version; otherwise it is a `Mismatch` (false). Not every store can do that
        (`Capabilities.conditions`).

            >>> await client.delete("greeting")
            Absent()
        """
    async def vdel(
        self,
        key: _Data,
        value: _Data,
        *,
        fencing_token: Hlc | None = None,
        if_version: Hlc | None = None,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> Deleted | Absent | Mismatch:
        """Deletes a key if it holds this value: `Deleted` (true), `Absent` or `Mismatch` (false). With ``if_version``, only if it has
        this version as well.

            >>> _ = await client.set("greeting", "hello")
            >>> await client.vdel("greeting", "other")
            Mismatch()
        """
    async def exists(self, key: _Data, *, eventual: bool = False, timeout: _Time | None = None) -> bool:
        """Returns whether a key is there. The request is that of `get`, so the store sends the value too.

        >>> _ = await client.set("greeting", "hello")
        >>> await client.exists("greeting")
        True
        """
    async def ttl(self, key: _Data, *, eventual: bool = False, timeout: _Time | None = None) -> float | None:
        """Returns the remaining time of a key in seconds; ``math.inf`` if it does not expire, ``None`` if it is absent. A store without
        `Capabilities.remaining_time` raises `UnsupportedError`.

            >>> _ = await client.set("session", "open", expires_in=60)
            >>> 59 < await client.ttl("session") <= 60
            True
        """
    async def touch(self, key: _Data, expires_in: _Time, *, persist: bool = False, timeout: _Time | None = None) -> bool:
        """Lets a key expire after ``expires_in``, at least 0.1 seconds, or never for ``math.inf``, and keeps its value. Returns false if the
        key is absent. This is an `update`, so the key gets a new version.

            >>> _ = await client.set("session", "open", expires_in=60)
            >>> await client.touch("session", 3600)
            True
            >>> await client.touch("nothing", 3600)
            False
        """
    async def incr(
        self,
        key: _Data,
        by: int = 1,
        *,
        expires_in: _Time | None = None,
        persist: bool = False,
        timeout: _Time | None = None,
    ) -> int:
        """Adds ``by`` to the number in a key, and returns the new number. An absent key counts as 0. The value is a decimal number in ASCII,
        of 64 bits; any other value, and an overflow, raise `InvalidArgumentError`, and nothing is written.

        The key keeps the time that it has left, unless you set ``expires_in``. This is an `update`.

            >>> await client.incr("parts"), await client.incr("parts", 10), await client.incr("parts", -1)
            (1, 11, 10)
        """
    async def ping(self, *, timeout: _Time | None = None) -> float:
        """Sends a request that needs no right on a key, and returns the seconds until the store answered.

        >>> await client.ping() < 10
        True
        """
    async def capabilities(self) -> Capabilities:
        """Returns the optional features of the store: `Capabilities`. The client asks once for each connection.

        >>> await client.capabilities()  # doctest: +NORMALIZE_WHITESPACE
        Capabilities(conditions=True, remaining_time=True, transactions=10000, eventual=True, max_get_keys=10000,
                     scan_values=True, observe_matching=True)
        """
    def transaction(self) -> Transaction[_V]:
        """Creates an empty `Transaction` for `transact`. Nothing is sent."""
    async def transact(
        self,
        transaction: Transaction[_V],
        *,
        persist: bool = False,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> TransactionOutcome:
        """Executes all operations of a transaction, in their order, or none: a `TransactionOutcome`, which is true if they were
        executed. If the store rejects one, the error has its index in ``operation``, and nothing was done. Not every store has
        transactions (`Capabilities.transactions`).

            >>> transaction = client.transaction().set("a", "1").set("b", "2", condition="if_absent").delete("c")
            >>> (await client.transact(transaction)).versions  # doctest: +ELLIPSIS
            [Hlc('...'), Hlc('...'), None]
            >>> outcome = await client.transact(transaction)
            >>> outcome.applied, outcome.operation
            (False, 1)
        """
    def pipeline(self) -> Pipeline[_V]:
        """Collects requests, which are sent together by `Pipeline.execute`: many round trips in the time of one.

        >>> await client.pipeline().set("a", "1").get("b").delete("a").execute()  # doctest: +ELLIPSIS
        [SetOutcome(applied=True, ...), None, Deleted(version=...)]
        """
    def scan(self, pattern: _Data, *, timeout: _Time | None = None) -> Scan[_V]:
        """Iterates over the keys that match a pattern. The pattern is a glob: ``*``, ``?``, ``[ab]``, ``[0-9]``,
        ``[!x]``. ``timeout`` is that of each page.

            >>> _ = await client.set("room/1", "x"), await client.set("room/2", "x")
            >>> sorted([key async for key in client.scan("room/*")])
            [b'room/1', b'room/2']
        """
    def scan_entries(
        self, pattern: _Data, *, fallback: bool = False, timeout: _Time | None = None
    ) -> Scan[tuple[_V, Entry[_V]]]:
        """Iterates over the keys that match a pattern, each with its `Entry`, whose ``expires_in`` is known. The pattern is that of
        `scan`. ``timeout`` is that of each page.

        A store without `Capabilities.scan_values` raises `UnsupportedError`. With ``fallback``, the client reads the entries with
        `get_many` there, and their ``expires_in`` is unknown.

            >>> _ = await client.set("room/1", "warm"), await client.set("room/2", "cold")
            >>> sorted([(key, entry.value) async for key, entry in client.scan_entries("room/*")])
            [(b'room/1', b'warm'), (b'room/2', b'cold')]
        """
    def observe(
        self,
        key: _Data,
        callback: Callable[[Observation[_V]], object] | None = None,
        *,
        initial: bool = False,
        overflow: _Overflow = "latest",
        timeout: _Time | None = None,
    ) -> _AsyncContextCoroutine[Observer[Observation[_V]]]:
        """Observes a key from now on: an `Observer`, whose observations are `Set`, `Deleted`, `Resync` and `Lagged`. Changes
        after this call are not missed. With ``initial``, the first observation is the present state: a `Set`, or for an absent key
        a `Deleted` without a version.

        ``overflow`` is ``"latest"``, ``"all"`` (1,024 observations are kept for a slow reader), or the number of
        observations to keep. With a ``callback``, that is called with each observation, one after the other: on a thread of
        the client, or with `statestore.aio` in the event loop. Its exceptions go to `sys.unraisablehook`, or to the exception
        handler of that loop, and the observations go on.

            >>> async with client.observe("greeting") as changes:
            ...     _ = await client.set("greeting", "hello")
            ...     await anext(changes)  # doctest: +ELLIPSIS
            Set(value=b'hello', version=Hlc('...'))
        """
    def observe_matching(
        self,
        pattern: _Data,
        callback: Callable[[MatchObservation[_V]], object] | None = None,
        *,
        refresh: _Time | None = 10.0,
        max_keys: int = 1_000_000,
        timeout: _Time | None = None,
    ) -> _AsyncContextCoroutine[Observer[MatchObservation[_V]]]:
        """Observes all keys that match a pattern: an `Observer`. It reports a `MatchSet` for each key that exists, then `Complete`, also if
        no key matches, and from then on a `MatchSet` or `MatchDeleted` for each change. The pattern is that of `scan`.

        `Resync` means that changes may have been missed. The differences follow, and then `Resynced`, or `Complete` if that was not
        reported before. A slow reader gets only the newest state of each key. If more than ``max_keys`` keys match, the observer ends
        with `TooLargeError`. A ``callback`` is called as that of `observe`.

        On a store without `Capabilities.observe_matching`, the client watches each key, and scans for new ones once per ``refresh``
        interval. With ``refresh=None``, such a store raises `UnsupportedError`.

            >>> _ = await client.set("line/1", "fast")
            >>> async with client.observe_matching("line/*") as changes:
            ...     await anext(changes), await anext(changes)  # doctest: +ELLIPSIS
            (MatchSet(key=b'line/1', value=b'fast', version=Hlc('...')), Complete())
        """
    def mirror(
        self,
        pattern: _Data,
        *,
        refresh: _Time | None = 10.0,
        max_keys: int = 1_000_000,
        max_bytes: int = 268_435_456,
        timeout: _Time | None = None,
    ) -> _AsyncContextCoroutine[Mirror[_V]]:
        """Mirrors all entries whose keys match a pattern: a `Mirror`. It is empty at first; `Mirror.synced` waits until it has all entries.

        It follows the store as `observe_matching` does, also on stores without that capability. Reads send no request. While the
        connection is lost they return the last known state, and `Mirror.stale_since` returns since when. If more than ``max_keys`` keys
        match, or keys and values have more than ``max_bytes`` bytes, the mirror ends with `TooLargeError`. A key or value that is not
        text of the client's ``encoding`` ends it with `UnicodeDecodeError`.

        With the blocking client, the events arrive on the thread that calls your callbacks, so a long callback delays them.

        >>> _ = await client.set("line/1", "fast")
        >>> async with client.mirror("line/*") as lines:
        ...     await lines.synced()
        ...     lines.get("line/1").value
        b'fast'
        """
    async def update(
        self,
        key: _Data,
        change: Callable[[Entry[_V] | None], _Data | None | Awaitable[_Data | None]],
        *,
        expires_in: _Time | None = None,
        persist: bool = False,
        timeout: _Time | None = None,
    ) -> Applied | Unchanged:
        """Changes a key by its present value, without a lock: `Applied` (true), or `Unchanged` (false).

        ``change`` is called with the `Entry` or ``None`` and returns the new value, or ``None`` to leave the key as it is. It
        is called again if another client changed the key in between. With `statestore.aio` it may be a coroutine function.

        The key keeps the time that it has left. With ``expires_in``, at least 0.1 seconds, it expires after that time, or never for
        ``math.inf``. On a store without `Capabilities.conditions` the key is fenced from then on, and other writes need `update` too.
        `Guard.update` changes a key that a lock protects.

            >>> def count(old):
            ...     return str(int(old.value if old else 0) + 1)
            >>> _ = await client.update("parts", count), await client.update("parts", count)
            >>> (await client.get("parts")).value
            b'2'
        """
    def lease(self, name: _Data, **options: Unpack[LeaseOptions]) -> Lease[_V]:
        """Creates the `Lease` of this name, which is a key of the store. Nothing is sent.

        ``renewal`` is ``"third"`` (of the duration), a time, or ``"manual"``; ``holder`` is a name of your
        own, which each attempt makes unique by a suffix. With ``resume`` the lease is held under exactly that name, also if it is held under it
        already, so that a restarted program resumes its lease. Two running clients that resume one name both hold the lease.
        """
    def lock(self, name: _Data, **options: Unpack[LockOptions]) -> _AsyncContextCoroutine[Guard[_V]]:
        """Takes the lock of this name, and waits for it, without a limit unless you pass ``wait``: a `Guard`. The other options are
        those of `lease`. ``timeout`` limits each request, neither the wait nor the lease, and is accepted with ``wait`` only.

            >>> async with client.lock("pump/owner", wait=5) as guard:
            ...     guard.is_valid()
            True
        """
    async def with_lock(self, name: _Data, work: Callable[[Guard[_V]], Awaitable[_T]], **options: Unpack[LockOptions]) -> _T:
        """Takes the lock, awaits ``work`` with its guard, gives the lock back, and returns what ``work`` returned.

        The options are those of `lock`. If ``work`` fails, that is raised. If the lock is lost meanwhile, ``work`` is cancelled,
        and `LockLostError` raised, also if it returned something: it may have been done without the lock. The lock is given
        back when ``work`` has really ended, also if this call is cancelled.
        """
    def election(self, name: _Data, **options: Unpack[LockOptions]) -> Election[_V]:
        """Creates the `Election` of this name, which is a key of the store. Nothing is sent. The options are those of
        `lock`.
        """
    async def close(self, *, timeout: _Time | None = 5.0) -> None:
        """Finishes the calls under way, for ``timeout`` at most (5 s unless given), and closes the connection. New calls raise `ClosedError`
        at once; so do those under way when the time is over, or without a connection. Observers end. Closing again does nothing.

        The blocking client waits for a callback that runs, at most for two seconds; then a `RuntimeWarning` names it.
        """
    async def aclose(self, *, timeout: _Time | None = 5.0) -> None:
        """Closes the client as `close` does, for `contextlib.aclosing`."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...
    def __del__(self) -> None: ...

class Observer(Generic[_O]):
    """Observations, one after the other."""
    @property
    def key(self) -> bytes | str | None:
        """The key, the pattern, or the name of the lease or election; ``None`` for the states of a connection."""
    async def next(self, *, timeout: _Time | None = None) -> _O | None:
        """The next observation, or ``None`` when there will be none any more: see `lost_reason`.

        If nothing happens for ``timeout``, this raises `TimedOutError`, and nothing is missed.
        """
    def lost_reason(self) -> LostReason | None:
        """Returns the reason why the observer has ended: a `LostReason`; ``None`` before."""
    def error(self) -> StateStoreError | None:
        """Returns the error that ended the observer; ``None`` before, and if the client or the observer was closed."""
    async def close(self) -> None:
        """Ends the observer: waiting calls return, and a running callback is the last one."""
    async def aclose(self) -> None:
        """Closes the observer as `close` does, for `contextlib.aclosing`."""
    def __aiter__(self) -> AsyncIterator[_O]: ...
    async def __anext__(self) -> _O: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...

class Mirror(Generic[_V]):
    """A local copy of all entries whose keys match a pattern, which follows the store. It continues until you close it or its client.

    After an end for another reason, the mirror keeps its last state, and `error` returns the reason.
    """
    def get(self, key: _Data) -> Entry[_V] | None:
        """Returns the `Entry` of a key, or ``None`` if it is absent. Its ``expires_in`` is unknown. No request is sent.

        A key of the type that the client returns is found fastest: ``bytes``, or ``str`` with an ``encoding``.
        """
    def __contains__(self, key: _Data) -> bool: ...
    def __len__(self) -> int: ...
    def snapshot(self) -> dict[_V, Entry[_V]]:
        """Returns all entries as of one moment: a new dictionary, whose keys are those that the client returns."""
    def changes(self) -> MirrorChanges[_V]:
        """Returns every change from now on: a `MirrorChanges`. To get the state before too, call this first and `snapshot` then.

        >>> async with client.mirror("line/*") as lines:
        ...     await lines.synced()
        ...     changes = lines.changes()
        ...     _ = await client.set("line/1", "fast")
        ...     await anext(changes)  # doctest: +ELLIPSIS
        MatchSet(key=b'line/1', value=b'fast', version=Hlc('...'))
        """
    async def synced(self, *, timeout: _Time | None = None) -> None:
        """Waits until the mirror has the state of the store: all entries at first, and all differences after a gap.

        Raises the error that ended the mirror, `ClosedError` after a close, and `TimedOutError` after ``timeout``.
        """
    def stale_since(self) -> float | None:
        """Returns since when the mirror may differ from the store, as `time.monotonic` counts; ``None`` while it follows every change.

        It may differ until it is first `synced`, while the connection is lost, until the differences after a gap have arrived, and
        after its end.
        """
    @property
    def pattern(self) -> _V:
        """The pattern."""
    def lost_reason(self) -> LostReason | None:
        """Returns the reason why the mirror ended: a `LostReason`; ``None`` before. ``"refused"`` also means that the entries exceed a
        limit, or that a key or value is not text of the client's ``encoding``.
        """
    def error(self) -> StateStoreError | UnicodeError | None:
        """Returns the error that ended the mirror; ``None`` before, and if the client or the mirror was closed."""
    async def close(self) -> None:
        """Ends the mirror: waiting calls return. The entries remain."""
    async def aclose(self) -> None:
        """Closes the mirror as `close` does, for `contextlib.aclosing`."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...

class MirrorChanges(Generic[_V]):
    """The changes of a `Mirror`, from the moment when this was created. They end with the mirror.

    At most one event of each key waits. If you read slowly, you get the newest state of each key. The changes end if events of more
    than twice ``max_keys`` keys wait; `is_lagging` reports that.
    """
    async def next(self, *, timeout: _Time | None = None) -> MatchObservation[_V] | None:
        """Returns the next event: a `MatchObservation`; ``None`` after the last one.

        If nothing happens for ``timeout``, this raises `TimedOutError`, and nothing is missed.
        """
    def is_lagging(self) -> bool:
        """Returns whether the changes have ended because too many events waited."""
    def __aiter__(self) -> AsyncIterator[MatchObservation[_V]]: ...
    async def __anext__(self) -> MatchObservation[_V]: ...

class Scan(Generic[_I]):
    """The keys that match a pattern, or their entries, page by page."""
    async def next_page(self) -> list[_I] | None:
        """The next page, which may be empty although others follow; ``None`` after the last one. After an error the same
        page can be asked for again.

        A key or value that is not text of the client's ``encoding`` is a `UnicodeDecodeError`, whose ``object`` has its bytes. The
        page ends before it, the next call raises, and the one after that goes on behind it.
        """
    def __aiter__(self) -> AsyncIterator[_I]: ...
    async def __anext__(self) -> _I: ...

class Pipeline(Generic[_V]):
    """Requests that are sent together, by `execute`."""
    def get(self, key: _Data, *, remaining: bool = False, eventual: bool = False, timeout: _Time | None = None) -> Self:
        """Adds a `Client.get`. Returns the pipeline, so that you can chain calls."""
    def set(
        self,
        key: _Data,
        value: _Data,
        *,
        condition: _Condition = "always",
        expires_in: _Time | None = None,
        fencing_token: Hlc | None = None,
        persist: bool = False,
        coalesce: bool = False,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> Self:
        """Adds a `Client.set`. Returns the pipeline."""
    def delete(
        self,
        key: _Data,
        *,
        fencing_token: Hlc | None = None,
        if_version: Hlc | None = None,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> Self:
        """Adds a `Client.delete`. Returns the pipeline."""
    def vdel(
        self,
        key: _Data,
        value: _Data,
        *,
        fencing_token: Hlc | None = None,
        if_version: Hlc | None = None,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> Self:
        """Adds a `Client.vdel`. Returns the pipeline."""
    async def execute(self) -> list[Entry[_V] | SetOutcome | Deleted | Absent | Mismatch | None]:
        """Sends all added requests together, in their order: a list of the results. The pipeline is
        empty then.

        This is no transaction. If any request fails, the others are carried out nevertheless, and the first failure is raised;
        its `results` has for each request the result or the error.
        """
    def __len__(self) -> int: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

class Transaction(Generic[_V]):
    """Several writes, of which `Client.transact` executes all or none."""
    def set(
        self,
        key: _Data,
        value: _Data,
        *,
        condition: _Condition = "always",
        expires_in: _Time | None = None,
        fencing_token: Hlc | None = None,
    ) -> Self:
        """Adds a SET, with the options of `Client.set`. Returns the transaction, so that you can chain calls."""
    def delete(self, key: _Data, *, fencing_token: Hlc | None = None, if_version: Hlc | None = None) -> Self:
        """Adds a DEL. An absent key is no failure without ``if_version``. Returns the transaction."""
    def __len__(self) -> int: ...

class Lease(Generic[_V]):
    """A lease, identified by its name: at most one holder at a time, as long as it renews."""
    @property
    def name(self) -> _V:
        """The key of the lease."""
    async def acquire(self) -> Guard[_V] | Held[_V]:
        """Tries once to take the lease: a `Guard`, or `Held` with the holder, which is false.

        >>> lease = client.lease("pump/owner")
        >>> guard = await lease.acquire()
        >>> await client.lease("pump/owner").acquire()  # doctest: +ELLIPSIS
        Held(by=Holding(holder=Holder(name=b'...', client_id='...'), version=Hlc('...')))
        >>> await guard.release()
        Release.RELEASED
        """
    async def release(self) -> Release:
        """Releases the lease that is held under the resumed holder's name, whichever program took it: a `Release`. A guard releases its
        lease back by itself.
        """
    async def holder(self) -> Holding[_V] | None:
        """Returns the holder: a `Holding`, or ``None``."""
    def observe(
        self, callback: Callable[[Holding[_V] | NoHolder], object] | None = None
    ) -> _AsyncContextCoroutine[Observer[Holding[_V] | NoHolder]]:
        """Observes the holder: each observation is a `Holding`, or `NoHolder`, which is false."""

class Guard(Generic[_V]):
    """A held lock, which it renews, and whose loss it reports."""
    @property
    def name(self) -> _V:
        """The key of the lock."""
    @property
    def holder(self) -> Holder[_V]:
        """Name under which the lock is held: a `Holder`."""
    @property
    def token(self) -> Hlc:
        """Fencing token, which every guarded write carries."""
    def is_valid(self) -> bool:
        """Returns whether the lock is certainly held now, and was not released."""
    async def lost(self, *, timeout: _Time | None = None) -> LostReason | None:
        """Waits until the lock is lost or released, and returns the reason, as `lost_reason`; ``None`` if it is still held after ``timeout``."""
    def lost_reason(self) -> LostReason | None:
        """Returns the reason why the lock is no longer certainly held: a `LostReason`; ``None`` while it is held."""
    def reason(self) -> StateStoreError | None:
        """Returns the exception of the last failed renewal, or of the loss; ``None`` if it has no details beyond
        `lost_reason`.
        """
    async def renew(self) -> Hlc:
        """Renews the lease now, and returns the new version of its key."""
    async def release(self, *, timeout: _Time | None = None) -> Release:
        """Releases the lock, after the writes under way: a `Release`.

        It takes at most ``timeout``, and no longer than the lock is certainly held. Then it raises `TimedOutError`, and goes on in the
        background.
        """
    async def leave(self) -> None:
        """Ends the guard without a release: the lease expires by itself."""
    async def set(
        self,
        key: _Data,
        value: _Data,
        *,
        condition: _Condition = "always",
        expires_in: _Time | None = None,
        persist: bool = False,
        coalesce: bool = False,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> SetOutcome:
        """Sets a key as `Client.set` does, with the token of the lock; raises `LockLostError` once the lock is lost.

        >>> async with client.lock("pump/owner") as guard:
        ...     (await guard.set("pump/state", "running")).applied
        True
        """
    async def update(
        self,
        key: _Data,
        change: Callable[[Entry[_V] | None], _Data | None | Awaitable[_Data | None]],
        *,
        expires_in: _Time | None = None,
        persist: bool = False,
        timeout: _Time | None = None,
    ) -> Applied | Unchanged:
        """Changes a key as `Client.update` does, with the token of the lock; raises `LockLostError` once the lock is lost.

        >>> async with client.lock("pump/owner") as guard:
        ...     _ = await guard.update("pump/starts", lambda old: b"1" if old is None else old.value + b"1")
        ...     (await client.get("pump/starts")).value
        b'1'
        """
    async def delete(
        self, key: _Data, *, if_version: Hlc | None = None, timeout: _Time | None = None, retry: _Retry = "safe"
    ) -> Deleted | Absent | Mismatch:
        """Deletes a key as `Client.delete` does, with the token of the lock."""
    async def vdel(
        self,
        key: _Data,
        value: _Data,
        *,
        if_version: Hlc | None = None,
        timeout: _Time | None = None,
        retry: _Retry = "safe",
    ) -> Deleted | Absent | Mismatch:
        """Deletes a key with a value as `Client.vdel` does, with the token of the lock."""
    def __bool__(self) -> Literal[True]: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None: ...
    def __del__(self) -> None: ...

class Election(Generic[_V]):
    """An election, identified by its name: one leader at a time, which publishes a value."""
    @property
    def name(self) -> _V:
        """The name of the election."""
    def campaign(self, value: _Data) -> _AsyncContextCoroutine[Leadership[_V]]:
        """Waits until this client leads, and publishes a value: a `Leadership`.

        >>> election = client.election("line-7/leader")
        >>> async with election.campaign("host-a") as leadership:
        ...     (await election.leader()).value
        b'host-a'
        >>> await election.leader() is None
        True
        """
    async def leader(self) -> Leader[_V] | None:
        """Returns the leader: a `Leader`, or ``None``."""
    def observe(
        self, callback: Callable[[Leader[_V] | NoHolder], object] | None = None
    ) -> _AsyncContextCoroutine[Observer[Leader[_V] | NoHolder]]:
        """Observes the leader: each observation is a `Leader`, or `NoHolder`, which is false."""

class Leadership(Generic[_V]):
    """The leadership of an election."""
    @property
    def guard(self) -> Guard[_V]:
        """The guard of the lock behind it, for guarded writes."""
    async def proclaim(self, value: _Data) -> SetOutcome:
        """Publishes another value: a `SetOutcome`."""
    async def resign(self, *, timeout: _Time | None = None) -> Release:
        """Resigns: a `Release`. It takes at most ``timeout``, as `Guard.release`."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None: ...
    def __del__(self) -> None: ...

@overload
def connect(
    url: str | None = None, *, env: bool = False, encoding: None = None, **settings: Unpack[Settings]
) -> _AsyncContextCoroutine[Client[bytes]]:
    """Connects to a broker; the client belongs to the event loop that runs now. The arguments are those of
    `statestore.connect`. Await it, or use it in ``async with``.
    """
@overload
def connect(
    url: str | None = None, *, env: bool = False, encoding: str, **settings: Unpack[Settings]
) -> _AsyncContextCoroutine[Client[str]]:
    """Connects to a broker; the client belongs to the event loop that runs now. The arguments are those of
    `statestore.connect`. Await it, or use it in ``async with``.
    """
