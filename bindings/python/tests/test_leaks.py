"""100,000 operations leave nothing behind: neither objects nor memory."""

import asyncio
import ctypes
import gc
import sys
import weakref

import pytest

import statestore
from statestore import aio

OPERATIONS = 100_000
WARM_UP = 10_000
# What may be kept for later, once: queues and buffers that have grown, caches of the interpreter.
MARGIN_BLOCKS = 2_000
MARGIN_BYTES = 200_000
# Queues that grow once more in a burst do not in the next round; a leak does.
ROUNDS = 3


class Mallinfo(ctypes.Structure):
    """What glibc says of its heap."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform == "linux" else None
pytestmark = pytest.mark.skipif(mallinfo2 is None, reason="needs glibc 2.33 or newer")
if mallinfo2 is not None:
    mallinfo2.restype = Mallinfo


def measure():
    """Small blocks of Python, which are in no heap of glibc, and the bytes in use of that: unlike resident memory, both are exact."""
    gc.collect()
    heap = mallinfo2()
    return sys.getallocatedblocks(), heap.uordblks + heap.hblkhd


def growth(before, after):
    blocks, memory = (new - old for new, old in zip(after, before, strict=True))
    print(f"{blocks} blocks of Python and {memory} bytes more")
    return blocks, memory


def is_within_margins(before, after):
    blocks, memory = growth(before, after)
    return blocks < MARGIN_BLOCKS and memory < MARGIN_BYTES


def check(before, after):
    blocks, memory = growth(before, after)
    assert blocks < MARGIN_BLOCKS
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
            for _ in range(ROUNDS - 1):
                before = measure()
                await work(client, OPERATIONS)
                if is_within_margins(before, measure()):
                    return
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
