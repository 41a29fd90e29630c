"""The server understands clients of former releases, and the command line servers of former releases: what they said is said again."""

import copy
import os
import re
from pathlib import Path

import pytest

import recording
from packet import VERSION
from server import binary

RELEASES = recording.releases()


def client():
    """The command line, beside the server unless STATESTORE_BIN says where."""
    path = Path(os.environ.get("STATESTORE_BIN", Path(binary()).with_name("statestore")))
    assert path.exists(), f"{path} is missing: `cargo build -p statestore-cli`, or set STATESTORE_BIN"
    return str(path)


def test_there_are_recordings():
    assert RELEASES and all(len(recorded) >= 10 for recorded in RELEASES.values())


@pytest.mark.parametrize("release", RELEASES)
def test_a_client_of_that_release_is_answered_as_then(release, server):
    # One after the other: each finds what those before have left.
    for recorded in RELEASES[release]:
        told, wanted = recorded.play_clients(server.port)
        assert told == wanted, recorded.name


@pytest.mark.parametrize(
    ("recorded", "number"),
    [
        pytest.param(one, number, id=f"{release}-{one.name}-{number}")
        for release, recorded in RELEASES.items()
        for one in recorded
        for number in one.commands
    ],
)
def test_a_server_of_that_release_is_understood(recorded, number):
    result, wanted, said = recorded.play_server(client(), number)
    assert result == wanted, said


CHANGES = [
    pytest.param("watch", b"other", b"0ther", id="the value of a notification"),
    pytest.param("watch", b"NOTIFY\r\n$6\r\nDELETE", b"NOTIFY\r\n$6\r\nREMOVE", id="what happened to a key"),
    pytest.param("watch", b"notify/67", b"notify/68", id="the key of a notification"),
    pytest.param("watch", VERSION, b"001804067200001:00000:StateStore", id="which version is later, or the same"),
    pytest.param("watch-expired", b"DELETE", b"EXPIRE", id="what is told when a time is over"),
    pytest.param("lease", b"+OK", b"-OK", id="whether a lease is had"),
    pytest.param("lease", b"\x03200", b"\x03500", id="a status"),
    pytest.param("transact", b"TXN", b"TXM", id="what the store can do"),
]


@pytest.mark.parametrize(("name", "old", "new"), CHANGES)
def test_other_bytes_of_a_server_are_noticed(name, old, new, start):
    pattern = re.compile(re.escape(old)) if isinstance(old, bytes) else old
    # All of these need nothing of what those before them have left.
    recorded = copy.copy(next(one for one in RELEASES["0.1.0"] if one.name.endswith(f"-{name}")))
    told, wanted = recorded.play_clients(start().port)
    assert told == wanted
    at, (number, direction, packet) = next(
        (at, it) for at, it in enumerate(recorded.packets) if it[1] == "<" and pattern.search(it[2])
    )
    recorded.packets = list(recorded.packets)
    recorded.packets[at] = (number, direction, pattern.sub(new, packet, count=1))
    told, wanted = recorded.play_clients(start().port)
    assert told != wanted
