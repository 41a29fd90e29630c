"""What the types promise and refuse: checked by mypy, never run. An `ignore` for which there is no error is one itself."""

from typing_extensions import Unpack, assert_type

import statestore
from statestore import Entries, Entry, Guard, MatchDeleted, MatchObservation, MatchSet, SetOutcome, aio
from statestore.opentelemetry import instrument
from statestore.options import LockOptions


def of_bytes(client: statestore.Client) -> None:
    assert_type(instrument(client, record_keys=True), statestore.Client)
    assert_type(client.get("key"), Entry[bytes] | None)
    entries = client.get_many(["key"])
    assert_type(entries, Entries[bytes])
    assert_type(entries[0], Entry[bytes] | None)
    assert_type(entries.snapshot, bool)
    found: list[Entry[bytes] | None] = entries
    assert_type(found, list[Entry[bytes] | None])
    assert_type(client.set_many({"key": b"value"}), list[SetOutcome])
    client.set_many([("key", "value"), (b"key", bytearray(1))], persist=True)
    for pair in client.scan_entries("*", fallback=True):
        assert_type(pair, tuple[bytes, Entry[bytes]])
    for change in client.observe_matching("*", refresh=None, max_keys=10):
        if isinstance(change, (MatchSet, MatchDeleted)):
            assert_type(change.key, bytes)
    with client.mirror("*", max_bytes=1 << 20) as mirror:
        assert_type(mirror.get("key"), Entry[bytes] | None)
        assert_type(mirror.snapshot(), dict[bytes, Entry[bytes]])
        for event in mirror.changes():
            assert_type(event, MatchObservation[bytes])
    version = client.set("key", "value", condition=statestore.if_version(statestore.Hlc("7:1:StateStore"))).version
    client.delete("key", if_version=version)
    assert_type(client.transact(client.transaction().set("key", "value").delete(b"key")).applied, bool)
    assert_type(client.exists("key"), bool)
    assert_type(client.ttl("key"), float | None)
    assert_type(client.touch("key", 60), bool)
    assert_type(client.incr("key", 2), int)
    assert_type(client.ping(timeout=1), float)
    with client.pipeline() as pipeline:
        assert_type(pipeline, statestore.Pipeline[bytes])
    client.touch("key")  # type: ignore[call-arg]
    client.incr("key", 1.5)  # type: ignore[arg-type]
    client.set("key", "value", ex=60)  # type: ignore[call-arg]
    client.observe_matching("*", max_keys=None)  # type: ignore[arg-type]
    client.set("key", 7)  # type: ignore[arg-type]
    client.set("key", "value", condition="sometimes")  # type: ignore[arg-type]
    client.lock("lock", waits=1)  # type: ignore[call-arg]
    statestore.Nothing  # type: ignore[attr-defined]


def of_text() -> None:
    client = statestore.connect("mqtt://localhost", encoding="utf-8", request_timeout=1)
    assert_type(client.get("key"), Entry[str] | None)
    for key in client.scan("*"):
        assert_type(key, str)
    for name, entry in client.scan_entries("*"):
        assert_type(name, str)
        assert_type(entry, Entry[str])
    assert_type(client.mirror("*").snapshot(), dict[str, Entry[str]])
    statestore.connect("mqtt://localhost", client_id=7)  # type: ignore[call-overload]
    statestore.connect("mqtts://localhost", lazy=True, ca_pem="-----BEGIN CERTIFICATE-----", cert_pem=b"", key_pem=b"")


def passed_on(client: statestore.Client[str], **options: Unpack[LockOptions]) -> Guard[str]:
    return client.lock("lock", **options)


async def of_asyncio(client: aio.Client) -> None:
    assert_type(instrument(client), aio.Client)
    assert_type(await client.get("key"), Entry[bytes] | None)
    assert_type(await client.get_many(["key"]), Entries[bytes])
    assert_type(await client.scan_entries("*").next_page(), list[tuple[bytes, Entry[bytes]]] | None)
    async with client.observe_matching("*") as changes:
        assert_type(changes, aio.Observer[MatchObservation[bytes]])
    async with client.mirror("*") as mirror:
        await mirror.synced(timeout=1)
        assert_type(mirror.stale_since(), float | None)
        assert_type(await mirror.changes().next(), MatchObservation[bytes] | None)
    assert_type(await client.incr("key"), int)
    assert_type(await client.ttl("key"), float | None)
    await client.aclose()
    async with client.pipeline() as opened:
        assert_type(opened, aio.Pipeline[bytes])
    pipeline = client.pipeline().get("key").set("key", "value")
    results = await pipeline.execute()
    assert_type(len(results), int)
    async with client.lock("lock", wait=1) as guard:
        assert_type(guard.is_valid(), bool)
