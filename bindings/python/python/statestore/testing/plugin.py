"""The fixtures; pytest finds them by itself."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

import pytest

import statestore
from statestore.testing import Server, ServerNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from statestore import aio


@pytest.fixture
def statestore_server() -> Iterator[Server]:
    """A private, empty state store for this test.

    Without `statestored`, the test is skipped; but it fails where the environment variable ``CI`` is set, as in every common CI: a
    suite that skips everything would prove nothing there.
    """
    try:
        server = Server()
    except ServerNotFound as error:
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            raise
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def statestore_client(statestore_server: Server) -> Iterator[statestore.Client]:
    """A client of the private state store."""
    with statestore.connect(statestore_server.url) as client:
        yield client


@pytest.fixture
def statestore_aio_connect(statestore_server: Server) -> Callable[..., AbstractAsyncContextManager[aio.Client]]:
    """Connects asyncio clients to the private state store, in the event loop that runs then:

        async def test_greeting(statestore_aio_connect):
            async with statestore_aio_connect() as client:
                await client.set("greeting", "hello")

    Each is one of that loop, so this works with pytest-asyncio, with anyio's backend asyncio, and with `asyncio.run` in a plain test; under
    trio it is a `RuntimeError`. The arguments are those of `statestore.aio.connect` beside the URL.
    """
    # Imported at the first use: every run of pytest imports this module.
    from statestore import aio

    return functools.partial(aio.connect, statestore_server.url)
