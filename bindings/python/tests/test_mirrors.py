"""Mirrors: local copies of all entries whose keys match a pattern."""

import asyncio
import math
import threading

import pytest
from conftest import HANG_TIMEOUT

import statestore
from statestore import Complete, Entry, MatchDeleted, MatchSet, Resync, Resynced, aio


def mirror_of(face, client, pattern="line/*", **options):
    """A mirror that has all entries."""
    mirror = face.run(client.mirror(pattern, **options))
    face.run(mirror.synced(timeout=HANG_TIMEOUT))
    return mirror


def next_of(face, changes):
    return face.run(changes.next(timeout=HANG_TIMEOUT))


def until(face, changes, last):
    """The events before ``last``."""
    found = []
    while (event := next_of(face, changes)) != last:
        assert event is not None
        found.append(event)
    return found


def test_a_synced_mirror_has_all_entries_and_follows_their_changes(face, connect):
    client = connect()
    old = Entry(b"old", face.run(client.set("line/1", "old")).version)
    face.run(client.set("other", "value"))
    mirror = mirror_of(face, client)
    assert (mirror.pattern, mirror.stale_since(), mirror.error(), mirror.lost_reason()) == (b"line/*", None, None, None)
    assert mirror.get("line/1") == mirror.get(b"line/1") == mirror.get(bytearray(b"line/1")) == old
    assert "line/1" in mirror and "other" not in mirror and mirror.get("other") is None
    with pytest.raises(TypeError, match="key"):
        mirror.get(1)
    changes, before = mirror.changes(), mirror.snapshot()
    version = face.run(client.set("line/2", "new")).version
    assert next_of(face, changes) == MatchSet(b"line/2", b"new", version)
    assert mirror.get("line/2") == Entry(b"new", version) and len(mirror) == 2
    face.run(client.delete("line/1"))
    deleted = next_of(face, changes)
    assert deleted == MatchDeleted(b"line/1", deleted.version) and deleted.version > old.version
    assert mirror.snapshot() == {b"line/2": Entry(b"new", version)}
    assert before == {b"line/1": old}
    with pytest.raises(statestore.TimedOutError, match="nothing happened within 0 s"):
        face.run(changes.next(timeout=0))
    face.run(mirror.close())


def test_a_mirror_without_keys_is_synced(face, connect):
    mirror = mirror_of(face, connect(), "none/*")
    assert len(mirror) == 0 and mirror.snapshot() == {}
    face.run(mirror.synced(timeout=math.inf))


def test_changes_that_are_read_slowly_have_the_newest_state_of_each_key(face, connect):
    client = connect()
    mirror = mirror_of(face, client)
    slow, fast = mirror.changes(), mirror.changes()
    for number in range(10):
        for key in (b"line/1", b"line/2"):
            version = face.run(client.set(key, str(number))).version
            assert next_of(face, fast) == MatchSet(key, str(number).encode(), version)
    assert [next_of(face, slow).value for _ in range(2)] == [b"9", b"9"]
    with pytest.raises(TimeoutError):
        face.run(slow.next(timeout=0))


def test_changes_end_if_the_events_of_too_many_keys_wait(face, connect):
    client = connect()
    mirror = mirror_of(face, client, max_keys=1)
    slow, fast = mirror.changes(), mirror.changes()
    for number in range(3):
        key = f"line/{number}"
        face.run(client.set(key, "value"))
        assert isinstance(next_of(face, fast), MatchSet)
        face.run(client.delete(key))
        assert isinstance(next_of(face, fast), MatchDeleted)
    assert next_of(face, slow) is None
    assert slow.is_lagging() and not fast.is_lagging()
    assert mirror.lost_reason() is None


def test_a_mirror_is_stale_until_the_differences_after_a_restart_of_the_store_have_arrived(face, start_server):
    server = start_server()
    client = face.run(face.module.connect(server.url, reconnect_delay_max=0.05))
    old = Entry(b"old", face.run(client.set("line/1", "old")).version)
    mirror = mirror_of(face, client)
    changes = mirror.changes()
    server.kill()
    while (since := mirror.stale_since()) is None:
        face.turn()
    assert mirror.get("line/1") == old
    with pytest.raises(statestore.TimedOutError):
        face.run(mirror.synced(timeout=0))
    start_server("--listen", f"tcp://127.0.0.1:{server.port}")
    found = until(face, changes, Resynced())
    assert found[0] == Resync()
    assert [event for event in found if event != Resync()] == [MatchDeleted(b"line/1", None)]
    face.run(mirror.synced(timeout=HANG_TIMEOUT))
    assert since > 0 and mirror.stale_since() is None and len(mirror) == 0
    version = face.run(client.set("line/2", "new")).version
    assert next_of(face, changes) == MatchSet(b"line/2", b"new", version)
    face.run(client.close())


def test_changes_from_the_start_have_the_present_state(statestore_server):
    async def main():
        async with aio.connect(statestore_server.url) as client:
            version = (await client.set("line/1", "value")).version
            async with client.mirror("line/*") as mirror:
                changes = mirror.changes()
                assert [await anext(changes) for _ in range(2)] == [MatchSet(b"line/1", b"value", version), Complete()]
                assert mirror.stale_since() is None
            assert [event async for event in changes] == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"max_bytes": 15}, "the entries have 18 bytes; 15 are allowed"), ({"max_keys": 2}, "more than 2 keys match")],
    ids=["max_bytes", "max_keys"],
)
def test_entries_beyond_a_limit_end_the_mirror(face, connect, options, problem):
    client = connect()
    face.run(client.set_many({"line/1": "one"}))
    mirror = mirror_of(face, client, **options)
    changes = mirror.changes()
    # A shorter value leaves space for others.
    face.run(client.set("line/1", ""))
    face.run(client.set("line/2", "two"))
    assert [next_of(face, changes).key for _ in range(2)] == [b"line/1", b"line/2"]
    face.run(client.set("line/1", "one"))
    face.run(client.set("line/3", ""))
    # Until the end.
    face.collect(changes)
    with pytest.raises(statestore.TooLargeError, match=problem):
        face.run(mirror.synced(timeout=HANG_TIMEOUT))
    assert mirror.lost_reason() == "refused" and isinstance(mirror.error(), statestore.TooLargeError)
    assert mirror.stale_since() is not None and not changes.is_lagging()
    assert "line/2" in mirror


@pytest.mark.parametrize("ends", ["mirror", "client"])
def test_a_mirror_ends_when_it_or_its_client_is_closed(face, connect, ends):
    client = connect()
    face.run(client.set("line/1", "value"))
    mirror = mirror_of(face, client)
    changes = mirror.changes()
    face.run((mirror if ends == "mirror" else client).close())
    assert face.collect(changes) == []
    assert (mirror.lost_reason(), mirror.error()) == ("closed", None)
    assert mirror.stale_since() is not None
    with pytest.raises(statestore.ClosedError):
        face.run(mirror.synced())
    assert mirror.get("line/1").value == b"value"
    face.run(mirror.close())
    assert next_of(face, mirror.changes()) is None


def test_text_comes_out_of_a_mirror_as_text(face, connect):
    client, raw = connect(encoding="utf-8"), connect()
    version = face.run(raw.set("line/ä", "ö")).version
    mirror = mirror_of(face, client)
    assert mirror.pattern == "line/*"
    assert mirror.get("line/ä") == mirror.get("line/ä".encode()) == Entry("ö", version)
    assert mirror.snapshot() == {"line/ä": Entry("ö", version)}
    changes = mirror.changes()
    face.run(raw.set("line/ä", b"\xff"))
    assert face.collect(changes) == []
    with pytest.raises(UnicodeDecodeError) as raised:
        face.run(mirror.synced())
    assert raised.value.object == b"\xff" and mirror.lost_reason() == "refused"


def test_a_mirror_of_a_store_that_watches_no_patterns(face, plain_client):
    client = plain_client
    with pytest.raises(statestore.UnsupportedError, match="refresh"):
        face.run(client.mirror("line/*", refresh=None))
    face.run(client.set("line/1", "old"))
    mirror = mirror_of(face, client, refresh=0.05)
    changes = mirror.changes()
    assert mirror.get("line/1").value == b"old"
    version = face.run(client.set("line/2", "new")).version
    assert next_of(face, changes) == MatchSet(b"line/2", b"new", version)
    face.run(client.delete("line/1"))
    assert next_of(face, changes).key == b"line/1" and len(mirror) == 1


def test_a_callback_does_not_wait_for_a_mirror_of_its_client(statestore_client):
    raised, is_called = [], threading.Event()
    mirror = statestore_client.mirror("none/*")

    def callback(_):
        try:
            mirror.synced()
        except statestore.WrongThreadError as error:
            raised.append(error)
        is_called.set()

    statestore_client.states(callback)
    assert is_called.wait(HANG_TIMEOUT) and raised
    mirror.close()


def test_threads_share_a_mirror(statestore_client):
    statestore_client.set("line/1", "0")
    mirror = statestore_client.mirror("line/*")
    mirror.synced()
    is_over = threading.Event()
    sizes = set()

    def read():
        while not is_over.is_set():
            sizes.add(len(mirror.snapshot()))
            assert mirror.get("line/1") is not None

    threads = [threading.Thread(target=read) for _ in range(4)]
    changes = mirror.changes()
    for thread in threads:
        thread.start()
    for number in range(2, 200):
        statestore_client.set(f"line/{number}", "value")
    while changes.next(timeout=HANG_TIMEOUT).key != b"line/199":
        pass
    is_over.set()
    for thread in threads:
        thread.join()
    assert sizes <= {*range(1, 200)}
