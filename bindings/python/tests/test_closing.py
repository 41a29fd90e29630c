"""The end of a client: calls under way are finished, in bounded time."""

import asyncio
import os
import signal
import threading
from contextlib import contextmanager

import pytest
from conftest import HANG_TIMEOUT

import statestore
from statestore import aio

COUNT = 100


@contextmanager
def standing_still(server):
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


class Setting(threading.Thread):
    """Sets a key, in a thread that keeps the result."""

    def __init__(self, client, key):
        super().__init__(daemon=True)
        self.client, self.key, self.result = client, key, None
        self.start()

    def run(self):
        try:
            self.result = self.client.set(self.key, "v", timeout=HANG_TIMEOUT)
        except statestore.StateStoreError as error:
            self.result = error

    def done(self):
        self.join(HANG_TIMEOUT)
        return self.result


def in_flight(client, count):
    while client.counters().in_flight < count:
        pass


def refusal(client):
    with pytest.raises(statestore.StateStoreError) as raised:
        client.get("key", timeout=0.01)
    return raised.value


def test_closing_finishes_blocking_calls_of_other_threads(start_server):
    server = start_server()
    client = statestore.connect(server.url)
    with standing_still(server):
        sets = [Setting(client, f"key-{number}") for number in range(10)]
        in_flight(client, 10)
        closing = threading.Thread(target=client.close, kwargs={"timeout": HANG_TIMEOUT}, daemon=True)
        closing.start()
        # Calls are refused from when it begins to close, although it is not closed yet.
        while (error := refusal(client)).kind == "TimedOut":
            pass
        assert (error.kind, error.outcome, closing.is_alive()) == ("Closed", "not_done", True)
    assert all(isinstance(set.done(), statestore.SetOutcome) for set in sets), [set.result for set in sets]
    closing.join(HANG_TIMEOUT)
    assert not closing.is_alive()


def test_closing_finishes_calls_that_were_not_awaited(statestore_server):
    async def main():
        client = await aio.connect(statestore_server.url)
        sets = [asyncio.ensure_future(client.set(f"begun-{number}", "v")) for number in range(COUNT)]
        observer = await client.observe("begun")
        # What waits for an event is not waited for.
        observing, waiting = asyncio.ensure_future(observer.next()), asyncio.ensure_future(held(client))
        await asyncio.sleep(0)
        await asyncio.wait_for(client.close(timeout=10 * HANG_TIMEOUT), HANG_TIMEOUT)
        assert all((await asyncio.gather(*sets)))
        assert await observing is None
        with pytest.raises(statestore.ClosedError):
            await waiting
        async with aio.connect(statestore_server.url) as other:
            found = await other.get_many([f"begun-{number}" for number in range(COUNT)])
            assert all(entry is not None for entry in found)

    async def held(client):
        async with client.lock("held-lock"), client.lock("held-lock"):
            pass

    asyncio.run(main())


def test_closing_is_bounded_and_the_outcome_of_the_rest_is_unknown(face, start_server):
    server = start_server()
    client = face.run(face.module.connect(server.url))
    with standing_still(server):
        if face.name == "blocking":
            set = Setting(client, "key")
            in_flight(client, 1)
            client.close(timeout=0.05)
            error = set.done()
        else:

            async def close():
                set = asyncio.ensure_future(client.set("key", "v"))
                while client.counters().in_flight == 0:
                    await asyncio.sleep(0)
                await client.close(timeout=0.05)
                return (await asyncio.gather(set, return_exceptions=True))[0]

            error = face.run(close())
    assert isinstance(error, statestore.ClosedError), error
    assert error.outcome == "unknown"
    face.run(client.close(timeout=0))
