"""Operations leave nothing behind: neither objects nor memory."""

import asyncio
import gc
import itertools
import os
import sys
import weakref

import pytest

import statestore
from statestore import aio

BLOCK = 20_000  # operations
BLOCKS = 5
# Whatever an operation leaves behind is there after each block. An allocation takes 32 bytes at least, so one that every third operation
# keeps is found; what allocators keep for later, they do not keep more of each time.
KEPT_BYTES = 10

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure():
    gc.collect()
    return len(gc.get_objects()), resident()


def check(measured, operations):
    """``measured`` before the first block, and after each one of so many operations."""
    grown = [[new - old for old, new in zip(before, after, strict=True)] for before, after in itertools.pairwise(measured)]
    objects, memory = (min(kind) for kind in zip(*grown, strict=True))
    assert objects < 100, grown
    assert memory < KEPT_BYTES * operations, grown


def check_blocks(work, operations=BLOCK):
    measured = []
    for _ in range(BLOCKS + 1):
        work(operations)
        measured.append(measure())
    check(measured, operations)


def test_what_is_kept_is_noticed():
    kept = []

    def leak(operations):
        # No objects that Python's collector knows of.
        kept.extend(bytes([i % 256]) * 33 for i in range(operations // 3))

    with pytest.raises(AssertionError):
        check_blocks(leak)


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

    check_blocks(work)


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
            measured = []
            for _ in range(BLOCKS + 1):
                await work(client, BLOCK)
                measured.append(measure())
            check(measured, BLOCK)

    asyncio.run(main())


def test_observers_guards_and_clients_are_collected(statestore_server):
    refs = []

    def work(times):
        for _ in range(times):
            with statestore.connect(statestore_server.url) as client:
                observed = []
                observer = client.observe("key", observed.append)
                client.set("key", "value")
                with client.lock("door") as guard:
                    refs[:] = [weakref.ref(thing) for thing in (client, observer, guard)]

    measured = []
    for _ in range(BLOCKS + 1):
        work(20)
        measured.append(measure())
    assert [ref() for ref in refs] == [None, None, None]
    # Threads and their stacks come and go with each client: it may keep a page.
    check(measured, 20 * os.sysconf("SC_PAGE_SIZE") // KEPT_BYTES)
