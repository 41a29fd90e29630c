"""The fixtures; pytest finds them by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import statestore
from statestore.testing import Server, ServerNotFound


@pytest.fixture
def statestore_server() -> Iterator[Server]:
    """A private, empty state store for this test; the test is skipped if there is no `statestored`."""
    try:
        server = Server()
    except ServerNotFound as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def statestore_client(statestore_server: Server) -> Iterator[statestore.Client]:
    """A client of the private state store."""
    with statestore.connect(statestore_server.url) as client:
        yield client
