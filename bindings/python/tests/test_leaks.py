"""100,000 operations leave nothing behind: neither objects nor memory."""

import asyncio
import gc
import os
import sys
import weakref

import pytest

import statestore
from statestore import aio

OPERATIONS = 100_000
WARM_UP = 10_000
# What the allocators may keep for later.
MARGIN_BYTES = 8 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure():
    gc.collect()
    return len(gc.get_objects()), resident()


def check(before, after):
    objects, memory = (new - old for new, old in zip(after, before, strict=True))
    assert objects < 1000
    assert memory < MARGIN_BYTES


def test_blocking_calls(statestore_client):
    def work(operations):
        for _ in range(operations // 5):
            statestore_client.set("key", b"x" * 100)
            statestore_client.get("key")
            statestore_client.get("absent")
            try:
                statestore_client.get("")
            except ValueError:
                pass
            statestore_client.delete("absent")

    work(WARM_UP)
    before = measure()
    work(OPERATIONS)
    check(before, measure())


def test_asyncio(statestore_server):
    async def work(client, operations):
        for _ in range(operations // 1000):
            await asyncio.gather(*(client.set("key", b"x" * 100) for _ in range(400)))
            await asyncio.gather(*(client.get("key") for _ in range(400)))
            cancelled = [asyncio.ensure_future(client.get("key")) for _ in range(100)]
            await asyncio.sleep(0)
            for task in cancelled:
                task.cancel()
            await asyncio.gather(*cancelled, return_exceptions=True)
            await asyncio.gather(*(client.get("") for _ in range(100)), return_exceptions=True)

    async def main():
        async with aio.connect(statestore_server.url) as client:
            await work(client, WARM_UP)
            before = measure()
            await work(client, OPERATIONS)
            check(before, measure())

    asyncio.run(main())


def test_observers_guards_and_clients_are_collected(statestore_server):
    def work(times):
        for _ in range(times):
            with statestore.connect(statestore_server.url) as client:
                observed = []
                observer = client.observe("key", observed.append)
                client.set("key", "value")
                with client.lock("door") as guard:
                    refs = [weakref.ref(thing) for thing in (client, observer, guard)]
        return refs

    work(20)
    before = measure()
    refs = work(100)
    gc.collect()
    assert [ref() for ref in refs] == [None, None, None]
    check(before, measure())
