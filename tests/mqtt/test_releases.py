"""The server understands clients of former releases, and the command line servers of former releases: what they said is said again."""

import os
from pathlib import Path

import pytest

import recording
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
        told, wanted = recorded.play_client(server.port)
        assert told == wanted, recorded.name


@pytest.mark.parametrize(
    "recorded",
    [pytest.param(one, id=f"{release}-{one.name}") for release, recorded in RELEASES.items() for one in recorded],
)
def test_a_server_of_that_release_is_understood(recorded):
    result, wanted, said = recorded.play_server(client())
    assert result == wanted, said
