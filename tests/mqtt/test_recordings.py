"""Recordings of the command line and the server: one made here, and those of releases, played against the programs of today."""

import copy
import os
import re
from pathlib import Path

import pytest

import recorder
import recording
from packet import VERSION
from server import binary

TODAY = "today"


def client():
    """Returns the command line beside the server, unless STATESTORE_BIN names another one."""
    path = Path(os.environ.get("STATESTORE_BIN", Path(binary()).with_name("statestore")))
    assert path.exists(), f"{path} is missing: `cargo build -p statestore-cli`, or set STATESTORE_BIN"
    return str(path)


def named(recordings, name):
    return next(each for each in recordings if each.name.endswith(f"-{name}"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A recording of the programs under test."""
    folder = tmp_path_factory.mktemp("recordings") / TODAY
    recorder.record(folder, binary(), client())
    return recording.read(folder)


@pytest.fixture(params=[TODAY, *recording.releases()])
def recordings(request, made):
    return made if request.param == TODAY else recording.read(recording.FOLDER / request.param)


def test_a_recording_has_every_session(made):
    assert [each.name.partition("-")[2] for each in made] == [session.name for session in recorder.SESSIONS]


def test_a_recorded_client_is_answered_alike(recordings, server):
    # In order: each session finds what those before have left.
    for recorded in recordings:
        now, then = recorded.play_clients(server.port)
        assert now == then, recorded.name


def test_a_recorded_server_is_understood(recordings):
    for recorded in recordings:
        for number in recorded.commands:
            now, then, errors = recorded.play_server(client(), number)
            assert now == then, f"{recorded.name}, connection {number}: {errors}"


CHANGES = [
    pytest.param("watch", b"other", b"0ther", id="value of a notification"),
    pytest.param("watch", b"NOTIFY\r\n$6\r\nDELETE", b"NOTIFY\r\n$6\r\nREMOVE", id="event of a notification"),
    pytest.param("watch", b"notify/67", b"notify/68", id="key of a notification"),
    pytest.param("watch", VERSION, b"001804067200001:00000:StateStore", id="order of versions"),
    pytest.param("watch-expired", b"DELETE", b"EXPIRE", id="event of an expiry"),
    pytest.param("lease", b"+OK", b"-OK", id="reply to a lease"),
    pytest.param("lease", b"\x03200", b"\x03500", id="status"),
    pytest.param("transact", b"TXN", b"TXM", id="capability of the store"),
]


@pytest.mark.parametrize(("name", "old", "new"), CHANGES)
def test_a_changed_byte_of_a_recorded_server_is_noticed(made, name, old, new, start):
    pattern = re.compile(re.escape(old)) if isinstance(old, bytes) else old
    # None of these sessions needs what an earlier one left.
    recorded = copy.copy(named(made, name))
    now, then = recorded.play_clients(start().port)
    assert now == then
    at, (number, direction, packet) = next(
        (at, it) for at, it in enumerate(recorded.packets) if it[1] == "<" and pattern.search(it[2])
    )
    recorded.packets = list(recorded.packets)
    recorded.packets[at] = (number, direction, pattern.sub(new, packet, count=1))
    now, then = recorded.play_clients(start().port)
    assert now != then


def test_a_changed_reply_changes_what_a_client_prints(made):
    recorded = copy.copy(named(made, "get"))
    recorded.packets = [
        (number, direction, packet.replace(b"hello", b"hallo") if direction == "<" else packet)
        for number, direction, packet in recorded.packets
    ]
    now, then, _ = recorded.play_server(client(), 1)
    assert now != then


def test_a_recording_is_never_overwritten(tmp_path):
    with pytest.raises(SystemExit, match="exists"):
        recorder.record(tmp_path, binary(), client())
