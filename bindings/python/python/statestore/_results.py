"""The results of calls."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, Union

from statestore._native import Hlc

__all__ = [
    "Absent",
    "Applied",
    "Capabilities",
    "Complete",
    "Counters",
    "Deleted",
    "Entries",
    "Entry",
    "Held",
    "Holder",
    "Holding",
    "Lagged",
    "Leader",
    "LostReason",
    "MatchDeleted",
    "MatchObservation",
    "MatchSet",
    "Mismatch",
    "NoHolder",
    "Observation",
    "Release",
    "Resync",
    "Resynced",
    "Set",
    "SetOutcome",
    "TransactionOutcome",
    "Unchanged",
]

V = TypeVar("V")


@dataclass(frozen=True)
class Entry(Generic[V]):
    """The value and version of a key."""

    value: V
    """``bytes``, or ``str`` if the client has an ``encoding``."""
    version: Hlc
    """The version that the write of this value got."""
    expires_in: float | Literal["unknown"] = "unknown"
    """Remaining time in seconds, counted from the answer of the store; ``math.inf`` if the key does not expire; ``"unknown"`` unless
    ``remaining`` or `Client.scan_entries` asked for it. ``set`` and ``update`` take the time and ``math.inf``, and refuse
    ``"unknown"``."""

    def __repr__(self) -> str:
        left = "" if self.expires_in == "unknown" else f", expires_in={self.expires_in!r}"
        return f"Entry(value={self.value!r}, version={self.version!r}{left})"


class Entries(list[Union[Entry[V], None]]):
    """The result of `Client.get_many`: a list of `Entry`, or ``None`` for an absent key, in the order of the keys."""

    snapshot: bool
    """Whether all keys had these entries at one moment during the call, because the store returned them in one response."""

    def __init__(self, entries: Iterable[Entry[V] | None] = (), snapshot: bool = False) -> None:
        super().__init__(entries)
        self.snapshot = snapshot


@dataclass(frozen=True)
class SetOutcome:
    """The outcome of a SET. It is true if the value was stored."""

    applied: bool
    """Whether the value was stored; ``False`` if the condition was not met."""
    version: Hlc | None
    """The version of the value; if it was not stored, that of the value that is there, ``None`` if `if_version` found no key."""

    def __bool__(self) -> bool:
        return self.applied


@dataclass(frozen=True)
class Deleted:
    """The key was deleted, or has expired. As the outcome of a call it is true."""

    version: Hlc | None
    """The version of the deletion, if it is known."""


@dataclass(frozen=True)
class Absent:
    """There was no such key, so it did not have the version of ``if_version`` either. It is false."""

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True)
class Mismatch:
    """The key holds another value, or has another version than `if_version` says, and was not deleted. It is false."""

    version: Hlc | None = None
    """The version of the key; ``None`` for a `vdel` without ``if_version``."""

    def __repr__(self) -> str:
        return "Mismatch()" if self.version is None else f"Mismatch(version={self.version!r})"

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True)
class Capabilities:
    """The optional features of a store."""

    conditions: bool
    """Conditions on versions: `if_version` of SET, ``if_version`` of `Client.delete` and `Client.vdel`."""
    remaining_time: bool
    """``remaining`` of `Client.get` and `Client.get_many`."""
    transactions: int | None
    """The most operations of a transaction; ``None`` if there are no transactions."""
    eventual: bool = False
    """``eventual`` of `Client.get` and `Client.get_many` makes a difference."""
    max_get_keys: int | None = None
    """Maximum number of keys of one response to `Client.get_many`; ``None`` if the store takes one key at a time."""
    scan_values: bool = False
    """`Client.scan_entries` without ``fallback``."""
    observe_matching: bool = False
    """The store watches patterns, so that `Client.observe_matching` needs no watch of each key."""


@dataclass(frozen=True)
class TransactionOutcome:
    """The outcome of a transaction. It is true if its operations were executed."""

    applied: bool
    """Whether all operations were carried out; ``False`` if a condition was not met, and nothing changed."""
    versions: list[Hlc | None]
    """For each operation the version of its change, ``None`` for the deletion of an absent key; empty if it was not applied."""
    operation: int | None = None
    """Index of the operation whose condition was not met, from 0."""
    version: Hlc | None = None
    """The version that its key has; ``None`` if it is absent."""

    def __bool__(self) -> bool:
        return self.applied


@dataclass(frozen=True)
class Applied:
    """An update stored a new value."""

    version: Hlc
    """Version of the new value."""


@dataclass(frozen=True)
class Unchanged:
    """An update left the key as it is. It is false."""

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True)
class Set(Generic[V]):
    """An observation: the key has this value now."""

    value: V
    """The new value."""
    version: Hlc
    """Higher than that of any observation before, unless a `Resync` stands between."""


@dataclass(frozen=True)
class Resync:
    """An observation: changes may have been missed, because the connection was lost or the store reported a gap.

    The state of the key follows, unless it is the one that was observed last. For a pattern, the differences follow, and then
    `Resynced` or `Complete`.
    """


@dataclass(frozen=True)
class Lagged:
    """An observation: the observer was too slow, and the oldest observations were dropped."""

    count: int
    """Number of dropped observations."""


Observation = Union[Set[V], Deleted, Resync, Lagged]
"""The observations of a key."""


@dataclass(frozen=True)
class MatchSet(Generic[V]):
    """An observation of a pattern: a key has this value now."""

    key: V
    """The key."""
    value: V
    """The value."""
    version: Hlc
    """Higher than that of any observation of the key before, unless a `Resync` stands between."""


@dataclass(frozen=True)
class MatchDeleted(Generic[V]):
    """An observation of a pattern: a key was deleted, or has expired."""

    key: V
    """The key."""
    version: Hlc | None
    """The version of the deletion; ``None`` if a read found the key absent."""


@dataclass(frozen=True)
class Complete:
    """An observation of a pattern: the present state was reported, with a `MatchSet` for each key that exists. It comes once."""


@dataclass(frozen=True)
class Resynced:
    """An observation of a pattern: the differences since a `Resync` were reported."""


MatchObservation = Union[MatchSet[V], MatchDeleted[V], Complete, Resync, Resynced]
"""The observations of a pattern."""


@dataclass(frozen=True)
class Holder(Generic[V]):
    """The holder of a lease."""

    name: V
    """The name, as it stands in the store."""
    client_id: str | None
    """The name that a holder of this library gave itself, or its MQTT client id."""


@dataclass(frozen=True)
class Holding(Generic[V]):
    """A holder of a lease, and the version of its key."""

    holder: Holder[V]
    """The holder."""
    version: Hlc
    """The version that the lease's key has."""


@dataclass(frozen=True)
class Held(Generic[V]):
    """Another holder has the lease. It is false."""

    by: Holding[V] | None
    """The holder; ``None`` if the lease was released before the holder could be read."""

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True)
class Leader(Generic[V]):
    """The leader of an election."""

    holder: Holder[V]
    """Holder of the election's lock."""
    value: V | None
    """Value that the leader proclaims; ``None`` if it has not proclaimed one yet."""


@dataclass(frozen=True)
class NoHolder:
    """An observation: the lease has no holder, or the election no leader. It is false."""

    def __bool__(self) -> Literal[False]:
        return False


class Release(enum.Enum):
    """The outcome of the release of a lock. `NOT_HELD` is false."""

    RELEASED = "released"
    """The lock was held, and is free now."""
    NOT_HELD = "not_held"
    """The lock was not held any more: it was lost, or released before."""

    def __bool__(self) -> bool:
        return self is Release.RELEASED

    def __repr__(self) -> str:
        return f"Release.{self.name}"


LostReason = Literal["closed", "taken_over", "gave_up", "refused", "released", "expired", "taken"]
"""Reason for the end of an observer, a guard or a connection; the words are the same in every language.

- ``"closed"``: The client or the observer was closed, or the runtime that drove the client was shut down.
- ``"taken_over"``: Another connection with the same client id took the session over.
- ``"gave_up"``: The connection could not be made within `reconnect_limit`, or a `lazy` one within `connect_limit`.
- ``"refused"``: The broker or the store refused the credentials, the subscription or the watch.
- ``"released"``: The lease was given back, or left to expire.
- ``"expired"``: The lease expired before it could be renewed.
- ``"taken"``: Another client holds the lease, or the store no longer had it.

The last three are of guards alone.
"""


@dataclass(frozen=True)
class Counters:
    """Counters of a client since its creation."""

    sent: int
    """Requests sent; one that is sent again in a new session counts again."""
    completed: int
    """Responses that a request waited for."""
    timed_out: int
    """Requests whose time was up."""
    failed: int
    """Requests that the broker refused or that could not be sent."""
    superseded: int
    """Requests that newer ones replaced before they were sent."""
    resent: int
    """Requests sent again after a reconnect."""
    reconnects: int
    """Connections that were made again."""
    reauthentications: int
    """Newer service account tokens that the broker accepted over a live connection."""
    sessions_lost: int
    """Reconnects at which the broker had no session any more."""
    protocol_errors: int
    """Connections that this client closed because the broker broke the protocol."""
    unmatched_responses: int
    """Responses for which no request waited."""
    clock_skews: int
    """Received timestamps that were too far ahead of the local clock and were not taken over."""
    notifications: int
    """Notifications of observed keys."""
    stale_notifications: int
    """Notifications that were not newer than the one before, or came for a key that is not observed."""
    malformed_messages: int
    """Messages that are neither responses nor notifications."""
    in_flight: int
    """Requests that were sent and not answered yet."""
    queued: int
    """Requests that wait to be sent."""


# The native half gives these, which have nothing in them, again and again.
ABSENT = Absent()
MISMATCH = Mismatch()
UNCHANGED = Unchanged()
RESYNC = Resync()
RESYNCED = Resynced()
COMPLETE = Complete()
NO_HOLDER = NoHolder()
RELEASED = Release.RELEASED
NOT_HELD = Release.NOT_HELD
