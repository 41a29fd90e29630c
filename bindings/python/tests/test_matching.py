"""The keys that match a pattern: observers with the present state first, and scans that return values."""

import math
import queue

import pytest
from conftest import HANG_TIMEOUT

import statestore
from statestore import Complete, Deleted, Entry, MatchDeleted, MatchSet, Resync, Resynced, Set


def next_of(face, observer):
    return face.run(observer.next(timeout=HANG_TIMEOUT))


def until(face, observer, last):
    """The observations before ``last``."""
    found = []
    while (observation := next_of(face, observer)) != last:
        assert observation is not None, observer.error()
        found.append(observation)
    return found


def test_the_present_state_comes_first_then_complete_then_the_changes(face, connect):
    client = connect()
    versions = {key: face.run(client.set(key, b"old")).version for key in (b"line/1", b"line/2", b"other")}
    observer = face.run(client.observe_matching("line/*"))
    assert observer.key == b"line/*"
    found = until(face, observer, Complete())
    assert sorted(found, key=lambda observation: observation.key) == [
        MatchSet(key, b"old", versions[key]) for key in (b"line/1", b"line/2")
    ]
    face.run(client.set("other", "new"))
    version = face.run(client.set("line/3", "new")).version
    assert next_of(face, observer) == MatchSet(b"line/3", b"new", version)
    face.run(client.delete("line/1"))
    deleted = next_of(face, observer)
    assert deleted == MatchDeleted(b"line/1", deleted.version) and deleted.version > versions[b"line/1"]
    with pytest.raises(TimeoutError):
        face.run(observer.next(timeout=0))


def test_a_pattern_without_keys_is_complete_at_once(face, connect):
    observer = face.run(connect().observe_matching("none/*"))
    assert next_of(face, observer) == Complete()
    assert observer.lost_reason() is None and observer.error() is None


def test_a_slow_reader_gets_the_newest_state_of_each_key(face, connect):
    client = connect()
    observer = face.run(client.observe_matching("line/*"))
    assert next_of(face, observer) == Complete()
    face.run(client.set_many([("line/1", str(number)) for number in range(100)]))
    last = face.run(client.set("line/2", "last")).version
    newest = {}
    while newest.get(b"line/2") != MatchSet(b"line/2", b"last", last):
        observation = next_of(face, observer)
        newest[observation.key] = observation
    assert newest[b"line/1"].value == b"99"


def test_an_observer_of_a_pattern_that_is_closed(face, connect):
    client = connect()
    one, other = face.run(client.observe_matching("line/*")), face.run(client.observe_matching("line/*"))
    face.run(one.close())
    assert face.collect(one) == []
    assert (one.lost_reason(), one.error()) == ("closed", None)
    assert until(face, other, Complete()) == []
    face.run(client.close())
    assert face.collect(other) == []
    assert (other.lost_reason(), other.error()) == ("closed", None)


def test_a_callback_gets_the_present_state_and_the_changes(face, connect):
    client, seen = connect(), queue.Queue()
    version = face.run(client.set("line/1", "old")).version
    face.run(client.observe_matching("line/*", seen.put))
    while seen.qsize() < 2:
        face.run(client.get("other"))
    assert [seen.get(), seen.get()] == [MatchSet(b"line/1", b"old", version), Complete()]
    face.run(client.set("line/1", "new"))
    while seen.empty():
        face.run(client.get("other"))
    assert seen.get().value == b"new"


def test_after_a_restart_of_the_store_the_differences_follow(face, start_server):
    server = start_server()
    client = face.run(face.module.connect(server.url, reconnect_delay_max=0.05))
    face.run(client.set("line/1", "old"))
    observer = face.run(client.observe_matching("line/*"))
    until(face, observer, Complete())
    server.kill()
    start_server("--listen", f"tcp://127.0.0.1:{server.port}")
    found = until(face, observer, Resynced())
    assert found[0] == Resync()
    assert [observation for observation in found if observation != Resync()] == [MatchDeleted(b"line/1", None)]
    face.run(client.set("line/2", "new"))
    assert next_of(face, observer).key == b"line/2"
    face.run(client.close())


def test_more_keys_than_the_limit_end_the_observer(face, connect):
    client = connect()
    face.run(client.set_many({"line/1": "a", "line/2": "b"}))
    observer = face.run(client.observe_matching("line/*", max_keys=1))
    with pytest.raises(statestore.TooLargeError, match="more than 1 keys match"):
        face.collect(observer)
    assert observer.lost_reason() == "refused"
    assert isinstance(observer.error(), statestore.TooLargeError)


def test_text_comes_out_of_a_pattern_as_text(face, connect):
    client, raw = connect(encoding="utf-8"), connect()
    observer = face.run(client.observe_matching("line/*"))
    assert observer.key == "line/*" and next_of(face, observer) == Complete()
    face.run(raw.set(b"line/\xff", "value"))
    with pytest.raises(UnicodeDecodeError) as raised:
        next_of(face, observer)
    assert raised.value.object == b"line/\xff"
    version = face.run(raw.set("line/1", "text")).version
    assert next_of(face, observer) == MatchSet("line/1", "text", version)
    face.run(raw.delete("line/1"))
    assert next_of(face, observer).key == "line/1"


def test_a_store_that_watches_no_patterns(face, plain_client):
    client = plain_client
    capabilities = face.run(client.capabilities())
    assert not capabilities.observe_matching and not capabilities.scan_values
    with pytest.raises(statestore.UnsupportedError, match="refresh"):
        face.run(client.observe_matching("line/*", refresh=None))
    face.run(client.set("line/1", "old"))
    observer = face.run(client.observe_matching("line/*", refresh=0.05))
    assert [observation.key for observation in until(face, observer, Complete())] == [b"line/1"]
    version = face.run(client.set("line/2", "new")).version
    assert next_of(face, observer) == MatchSet(b"line/2", b"new", version)
    face.run(client.delete("line/1"))
    assert next_of(face, observer).key == b"line/1"


@pytest.mark.parametrize("overflow", ["latest", "all"])
def test_an_observer_of_a_key_may_begin_with_the_present_state(face, connect, overflow):
    client = connect()
    absent = face.run(client.observe("key", initial=True, overflow=overflow))
    assert next_of(face, absent) == Deleted(None)
    version = face.run(client.set("key", "value")).version
    assert next_of(face, absent) == Set(b"value", version)
    present = face.run(client.observe("key", initial=True, overflow=overflow))
    assert next_of(face, present) == Set(b"value", version)
    without = face.run(client.observe("key", initial=False, overflow=overflow))
    with pytest.raises(TimeoutError):
        face.run(without.next(timeout=0))


def test_a_scan_returns_values_versions_and_remaining_times(face, connect):
    client = connect()
    stays = face.run(client.set("room/1", "warm")).version
    expires = face.run(client.set("room/2", "cold", expires_in=60)).version
    face.run(client.set("other", "value"))
    entries = dict(face.collect(client.scan_entries("room/*", timeout=HANG_TIMEOUT)))
    left = entries[b"room/2"].expires_in
    assert entries == {b"room/1": Entry(b"warm", stays, math.inf), b"room/2": Entry(b"cold", expires, left)}
    assert 0 < left <= 60
    assert face.collect(client.scan_entries("none/*")) == []


def test_a_scan_returns_the_entries_of_all_pages(face, connect):
    client = connect()
    values = {f"key/{number}".encode(): bytes([number % 256]) * 1000 for number in range(3000)}
    face.run(client.set_many(values))
    scan, pages = client.scan_entries("key/*"), []
    while (page := face.run(scan.next_page())) is not None:
        pages.append(page)
    found = [item for page in pages for item in page]
    assert len(pages) > 1 and len(found) == len(values)
    assert {key: entry.value for key, entry in found} == values


def test_an_entry_that_does_not_decode_loses_no_other_entry(face, connect):
    client = connect(encoding="utf-8")
    for key, value in [("a", "1"), ("b", b"\xff"), (b"\xfe", "2"), ("c", "3")]:
        face.run(client.set(key, value))
    entries, found, broken = client.scan_entries("*"), [], []
    while True:
        try:
            face.collect(entries, found)
            break
        except UnicodeDecodeError as error:
            broken.append(error.object)
    assert sorted((key, entry.value) for key, entry in found) == [("a", "1"), ("c", "3")]
    assert sorted(broken) == [b"\xfe", b"\xff"]


def test_a_store_that_returns_no_values_of_a_scan(face, plain_client):
    client = plain_client
    version = face.run(client.set("room/1", "warm", expires_in=60)).version
    with pytest.raises(statestore.UnsupportedError) as raised:
        face.collect(client.scan_entries("room/*"))
    assert raised.value.outcome == "not_done"
    assert face.collect(client.scan_entries("room/*", fallback=True)) == [(b"room/1", Entry(b"warm", version))]
