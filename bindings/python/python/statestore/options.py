"""The settings of `connect`, and the options of leases and locks, as types.

Programs that pass them on annotate them so; nothing else is needed from here:

    from statestore.options import LockOptions
    from typing_extensions import Unpack

    def locked(client: statestore.Client, **options: Unpack[LockOptions]) -> statestore.Guard:
        return client.lock("pump/owner", **options)
"""

from __future__ import annotations

from datetime import timedelta
from os import PathLike
from typing import Literal, TypedDict, Union

from statestore._native import IfVersion

__all__ = ["Condition", "Data", "LeaseOptions", "LockOptions", "Overflow", "Path", "Renewal", "Retry", "Settings", "Time"]

Data = Union[str, bytes, bytearray, memoryview]
"""A key, a value or a name; ``str`` is sent as UTF-8, or in the client's ``encoding``."""
Time = Union[float, timedelta]
"""Seconds, or a ``timedelta``."""
Path = Union[str, "PathLike[str]"]
"""Name of a file."""
Condition = Union[Literal["always", "if_absent", "if_absent_or_equal"], IfVersion]
"""Condition of a SET: none, that the key is absent (NX), that it is absent or has this value already (NEX), or that it has the version of
`statestore.if_version`."""
Retry = Literal["safe", "always", "never"]
"""Whether a request is sent again when the session was lost before its response came."""
Overflow = Union[Literal["latest", "all"], int]
"""Observations that are kept for a slow reader: the newest, 1,024, or another number."""
Renewal = Union[Literal["third", "manual"], float, timedelta]
"""Interval of renewals of a lease: a third of its duration, this time, or none, for renewals by hand."""


class Settings(TypedDict, total=False):
    """Settings of a connection, beside the URL."""

    client_id: str | None
    """The MQTT client id; a random one by default."""
    clean_start: bool | None
    """Whether the first connection ends a session that the broker still has for this client id. Default: ``True``."""
    session_expiry: Time | None
    """Time for which the broker keeps the session without a connection, in whole seconds. Default: 1 h."""
    keep_alive: Time | None
    """Silence after which the connection is checked, in whole seconds; 0 is never. Default: 60 s."""
    ping_timeout: Time | None
    """Time limit of such a check. Default: 10 s."""
    connect_timeout: Time | None
    """Time limit of an attempt to connect. Default: 10 s."""
    connect_limit: Time | None
    """Time for which the first connection is retried; ``math.inf`` has no end. Default: 0, not at all; with ``lazy``, without an end."""
    request_timeout: Time | None
    """Time limit of calls without a ``timeout``. Default: 10 s."""
    fail_fast: bool | None
    """Whether a call that begins while the connection is lost raises `UnreachableError` at once, not executed. Default: ``False``, it
    waits for the connection until its time-out."""
    lazy: bool | None
    """Whether `connect` returns at once, and the client connects in the background: calls wait for the connection, and
    `Client.state` reports failures. Default: ``False``."""
    max_in_flight: int | None
    """Maximum number of sent requests without a response; further ones queue. Default: 65,536."""
    max_queued: int | None
    """Maximum number of queued requests; further ones raise `QueueFullError`. Default: 65,536."""
    max_buffered_bytes: int | None
    """Maximum size of the requests that the broker has not acknowledged, in bytes; further ones queue. Default: 64 MiB."""
    max_packet_bytes: int | None
    """Maximum size of a packet from the broker. Default: 256 MiB."""
    max_value_bytes: int | None
    """Maximum size of a value that is sent. Default: 256 MiB."""
    reconnect_delay_min: Time | None
    """The shortest pause between attempts to reconnect. Default: 100 ms."""
    reconnect_delay_max: Time | None
    """The longest pause between attempts to reconnect. Default: 30 s."""
    reconnect_limit: Time | None
    """Time for which a lost connection is retried. Default: ``math.inf``, without an end."""
    user_name: str | None
    """The user name."""
    password: str | bytes | None
    """The password, as any bytes."""
    password_file: Path | None
    """A file with the password, read again for each connection."""
    sat_file: Path | None
    """A file with a Kubernetes service account token, read again for each connection."""
    allow_plaintext_credentials: bool | None
    """Whether credentials may be sent over plain TCP, where every machine on the way can read them. Default: ``False``."""
    tls: bool | None
    """Whether the connection is encrypted. Default: as the URL says."""
    ca_file: Path | None
    """File with the authorities that can sign the broker's certificate, as PEM. Default: those of the system."""
    ca_pem: str | bytes | None
    """These authorities as PEM, instead of ``ca_file``."""
    cert_file: Path | None
    """The client's own certificate, as PEM."""
    cert_pem: str | bytes | None
    """That certificate as PEM, instead of ``cert_file``."""
    key_file: Path | None
    """The private key of that certificate, as PEM."""
    key_pem: str | bytes | None
    """That key as PEM, instead of ``key_file``."""
    key_password_file: Path | None
    """A file with the password of the private key."""
    server_name: str | None
    """Name that the broker's certificate must have. Default: the host of the URL."""


class LeaseOptions(TypedDict, total=False):
    """Options of `Client.lease`."""

    duration: Time
    """Duration of the lease without a renewal: 100 ms to 24 h. Default: 10 s."""
    renewal: Renewal
    """Interval of renewals. Default: ``"third"`` of the duration."""
    holder: Data | None
    """The name of the holder, which each attempt makes unique by a suffix. Default: the client id."""
    resume: bool
    """Whether the lease is held under exactly the name of the holder, also if it is held under that name already. Two running clients that
    resume one name both hold the lease. Default: ``False``."""
    timeout: Time | None
    """Time limit of each request. Default: ``request_timeout`` of the connection."""
    foreign_lease_max: Time
    """Age from which an unknown value in the key counts as data, not as a lease. Default: 1 h."""


class LockOptions(LeaseOptions, total=False):
    """Options of `Client.lock`, `Client.with_lock` and `Client.election`."""

    wait: Time | None
    """Maximum time to wait for the lock; 0 is one attempt. Default: no limit."""
