"""Whether a key is there, how long, and its number; and the round trip."""

import math
from datetime import timedelta

import pytest

import statestore
from statestore import InvalidArgumentError, UnsupportedError

LARGEST = (1 << 63) - 1


def test_a_key_exists_until_it_is_deleted(face, connect):
    client = connect()
    assert face.run(client.exists("key")) is False
    face.run(client.set("key", ""))
    assert face.run(client.exists(b"key", eventual=True)) is True
    face.run(client.delete("key"))
    assert face.run(client.exists("key")) is False


def test_the_remaining_time_of_a_key(face, connect):
    client = connect()
    assert face.run(client.ttl("key")) is None
    face.run(client.set("key", "v"))
    assert face.run(client.ttl("key")) == math.inf
    face.run(client.set("key", "v", expires_in=60))
    left = face.run(client.ttl("key"))
    assert isinstance(left, float) and 0 < left <= 60


@pytest.mark.parametrize("expires_in", [3600, timedelta(hours=1)], ids=repr)
def test_a_touched_key_keeps_its_value_and_gets_a_new_time(face, connect, expires_in):
    client = connect()
    assert face.run(client.touch("key", expires_in)) is False
    assert face.run(client.exists("key")) is False
    version = face.run(client.set("key", "v", expires_in=60)).version
    assert face.run(client.touch("key", expires_in)) is True
    entry = face.run(client.get("key", remaining=True))
    assert entry.value == b"v" and entry.version > version and 60 < entry.expires_in <= 3600
    assert face.run(client.touch("key", math.inf)) is True
    assert face.run(client.ttl("key")) == math.inf


def test_a_number_is_incremented(face, connect):
    client = connect()
    assert face.run(client.incr("parts")) == 1
    assert face.run(client.incr("parts", 41)) == 42
    assert face.run(client.incr("parts", by=-43)) == -1
    assert face.run(client.get("parts")).value == b"-1"
    assert face.run(client.incr("parts", LARGEST)) == LARGEST - 1


def test_an_incremented_number_keeps_its_time_unless_there_is_a_new_one(face, connect):
    client = connect()
    face.run(client.incr("hits", expires_in=60))
    face.run(client.incr("hits"))
    assert 0 < face.run(client.ttl("hits")) <= 60
    face.run(client.incr("hits", expires_in=3600))
    assert 60 < face.run(client.ttl("hits")) <= 3600


@pytest.mark.parametrize("value", ["", "+1", " 1", "01", "1.5", "one", str(LARGEST + 1), str(LARGEST)])
def test_what_is_no_number_or_too_large_is_not_incremented(face, connect, value):
    client = connect()
    version = face.run(client.set("parts", value)).version
    with pytest.raises(InvalidArgumentError, match="parts") as raised:
        face.run(client.incr("parts"))
    assert raised.value.outcome == "not_done"
    assert face.run(client.get("parts")).version == version


@pytest.mark.parametrize(
    ("call", "arguments", "kind", "message"),
    [
        ("exists", (1,), TypeError, "key must be"),
        ("ttl", (1,), TypeError, "key must be"),
        ("touch", ("key", None), TypeError, "expires_in must be a number of seconds or a timedelta, not NoneType"),
        ("touch", ("key", 0.01), ValueError, "key"),
        ("incr", ("key", 1.5), TypeError, "by must be an integer, not float"),
        ("incr", ("key", True), TypeError, "by must be an integer, not bool"),
        ("incr", ("key", LARGEST + 1), ValueError, "by must be an integer of 64 bits"),
    ],
)
def test_wrong_arguments_are_named(face, connect, call, arguments, kind, message):
    client = connect()
    with pytest.raises(kind, match=message):
        face.run(getattr(client, call)(*arguments))
    assert face.run(client.exists("key")) is False


def test_the_round_trip_is_measured(face, connect):
    client = connect()
    took = face.run(client.ping(timeout=10))
    assert isinstance(took, float) and 0 < took < 10
    sent = client.counters().sent
    face.run(client.ping())
    assert client.counters().sent > sent


def test_a_store_without_extensions(face, plain_client):
    assert face.run(plain_client.ping()) > 0
    assert face.run(plain_client.incr("parts")) == 1
    assert face.run(plain_client.incr("parts")) == 2
    assert face.run(plain_client.exists("parts")) is True
    assert face.run(plain_client.touch("parts", 60)) is True
    with pytest.raises(UnsupportedError):
        face.run(plain_client.ttl("parts"))


def test_a_closed_client_asks_nothing(face, connect):
    client = connect()
    face.run(client.close())
    for call in (lambda: client.exists("k"), lambda: client.ttl("k"), lambda: client.touch("k", 1), lambda: client.incr("k"), client.ping):
        with pytest.raises(statestore.ClosedError):
            face.run(call())
