"""What is special about event loops: cancellation, many calls at once, loops of other kinds, clients that are forgotten."""

import asyncio
import contextlib
import gc
import socket
import warnings

import pytest
import uvloop

import statestore
from statestore import aio

HANG_TIMEOUT = 30


def run(server, main, loop=None, guard=HANG_TIMEOUT):
    async def connected():
        async with aio.connect(server.url) as client:
            return await asyncio.wait_for(main(client), guard)

    if loop is None:
        return asyncio.run(connected())
    try:
        return loop.run_until_complete(connected())
    finally:
        loop.close()


def test_ten_thousand_awaits_at_once(statestore_server):
    async def main(client):
        await asyncio.gather(*(client.set(f"key/{i}", str(i)) for i in range(10_000)))
        entries = await asyncio.gather(*(client.get(f"key/{i}") for i in range(10_000)))
        assert [entry.value for entry in entries] == [str(i).encode() for i in range(10_000)]
        assert client.counters().completed == 20_000

    run(statestore_server, main)


def test_closing_at_the_same_time_is_closing(statestore_server):
    async def main():
        clients = [await aio.connect(statestore_server.url) for _ in range(20)]
        await asyncio.gather(*(client.close() for client in clients for _ in range(10)))

    asyncio.run(main())


def test_calls_are_coroutines(statestore_server):
    async def main(client):
        for call in (client.get("key"), client.lock("door"), client.observe("key")):
            assert asyncio.iscoroutine(call)
            await asyncio.create_task(call)
        assert await asyncio.wait_for(client.get("key"), 10) is None

    run(statestore_server, main)


def test_cancelling_a_task_cancels_its_call(statestore_server):
    async def main(client):
        held = await client.lock("door")
        observer = await client.observe("key")
        tasks = [asyncio.create_task(call) for call in (client.lock("door"), client.get("key"), observer.next())]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with pytest.raises(asyncio.CancelledError):
                await task
        await held.release()
        # Nothing of the waiting one is left: the lock is free, and stays with who takes it.
        assert (await client.lock("door", wait=0)).is_valid()
        assert client.counters().in_flight == 0

    run(statestore_server, main)


def test_a_timeout_of_asyncio_cancels_the_call(statestore_server):
    async def main(client):
        observer = await client.observe("key", overflow="all")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(observer.next(), 0.01)
        await client.set("key", "value")
        assert (await observer.next()).value == b"value"

    run(statestore_server, main)


async def cancelled_when_its_result_was_there(call, cause=None):
    """Cancels a call at the worst moment: its result has come, and it did not run again yet."""
    result = call.send(None)
    if cause is not None:
        await cause
    while not result.done():
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        call.throw(asyncio.CancelledError())


@pytest.mark.parametrize("call", ["scan", "scan_entries"])
def test_a_cancelled_call_leaves_its_page_to_the_next_one(call, statestore_server):
    async def main(client):
        await asyncio.gather(*(client.set(f"key/{i}", "value") for i in range(10)))
        scan = getattr(client, call)("key/*")
        await cancelled_when_its_result_was_there(scan.next_page())
        assert len([item async for item in scan]) == 10

    run(statestore_server, main)


@pytest.mark.parametrize("overflow", ["latest", "all"])
def test_a_cancelled_call_leaves_its_observation_to_the_next_one(overflow, statestore_server):
    async def main(client):
        observer = await client.observe("key", overflow=overflow)
        await cancelled_when_its_result_was_there(observer.next(), client.set("key", "value"))
        assert (await observer.next()).value == b"value"

        election = client.election("chief")
        leaders = await election.observe()
        assert not await leaders.next()
        await cancelled_when_its_result_was_there(leaders.next(), election.campaign("ann"))
        assert await leaders.next()

        states = client.states()
        assert (await states.next()).kind == "connected"
        await cancelled_when_its_result_was_there(states.next(), client.close())
        assert (await states.next()).kind == "closed"
        assert await states.next() is None

    run(statestore_server, main)


def test_a_cancelled_iteration_over_a_pattern_misses_no_observation(statestore_server):
    async def main(client):
        observer = await client.observe_matching("line/*")
        assert await observer.next() == statestore.Complete()
        await cancelled_when_its_result_was_there(observer.next(), client.set("line/1", "one"))
        assert (await anext(observer)).key == b"line/1"

        waiting = asyncio.create_task(anext(observer))
        starting = asyncio.create_task(client.observe_matching("other/*"))
        await asyncio.sleep(0)
        for task in (waiting, starting):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await client.set("other/1", "one")
        await client.set("line/2", "two")
        assert (await anext(observer)).key == b"line/2"

        async with client.observe_matching("line/*") as changes:
            async for change in changes:
                if change == statestore.Complete():
                    break
        assert await changes.next() is None

    run(statestore_server, main)


def test_repeated_short_waits_miss_no_observation(statestore_server):
    async def main(client):
        observer = await client.observe("key", overflow="all")
        seen = []

        async def read():
            while len(seen) < 300:
                with contextlib.suppress(asyncio.TimeoutError):
                    seen.append((await asyncio.wait_for(observer.next(), 0.0003)).value)

        reading = asyncio.create_task(read())
        for i in range(300):
            await client.set("key", str(i))
        await reading
        assert seen == [str(i).encode() for i in range(300)]

    run(statestore_server, main)


def test_concurrent_waits_on_one_observer(statestore_server):
    async def main(client):
        observer = await client.observe("key", overflow="all")
        waiting = [asyncio.create_task(observer.next(timeout=HANG_TIMEOUT)) for _ in range(5)]
        await asyncio.sleep(0)
        for i in range(5):
            await client.set("key", str(i))
        seen = await asyncio.wait_for(asyncio.gather(*waiting), HANG_TIMEOUT)
        assert sorted(observation.value for observation in seen) == [str(i).encode() for i in range(5)]
        with pytest.raises(TimeoutError):
            await observer.next(timeout=0)

    run(statestore_server, main)


@pytest.mark.parametrize("ending", ["cancelled", "closed"])
def test_a_cancelled_update_cancels_its_function(ending, statestore_server):
    steps = []

    async def main(client):
        began, may_end = asyncio.Event(), asyncio.Event()

        async def change(_):
            began.set()
            try:
                await asyncio.sleep(HANG_TIMEOUT)
            except asyncio.CancelledError:
                await may_end.wait()
                steps.append("the function ended")
                raise

        update = asyncio.create_task(client.update("key", change))
        await began.wait()
        if ending == "cancelled":
            update.cancel()
        else:
            await client.close(timeout=0)
        for _ in range(10):
            await asyncio.sleep(0)
        # It waits for what it called.
        assert not update.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError if ending == "cancelled" else statestore.ClosedError):
            await update
        steps.append("the update ended")

    run(statestore_server, main)
    assert steps == ["the function ended", "the update ended"]


def test_work_under_a_lock_releases_it_at_the_operation_limit(statestore_server):
    async def main(client):
        silent = await client.observe("silent")
        waiting = [silent.next() for _ in range(300_000)]

        async def work(_):
            # In one go, so that the client is full before anybody asks for the loss of the lock.
            with pytest.raises(statestore.QueueFullError):
                for call in waiting:
                    call.send(None)
            for _ in range(10):
                await asyncio.sleep(0)
            return "done"

        assert await client.with_lock("door", work) == "done"
        async with aio.connect(statestore_server.url) as other:
            assert await other.lease("door").holder() is None
        await silent.close()
        for call in waiting:
            call.close()

    # It is much to do.
    run(statestore_server, main, guard=10 * HANG_TIMEOUT)


def test_closing_ends_operations_under_way(statestore_server):
    async def main(client):
        held = await client.lock("door")
        waiting = asyncio.create_task(client.lock("door"))
        observer = await client.observe("key")
        observing = asyncio.create_task(observer.next())
        losing = asyncio.create_task(held.lost())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(statestore.ClosedError):
            await waiting
        assert await observing is None
        assert await losing == "closed"

    run(statestore_server, main)


class WithoutReaders(asyncio.SelectorEventLoop):
    """As the loops of Windows are."""

    def add_reader(self, *_):
        raise NotImplementedError


@pytest.mark.parametrize("loop", [WithoutReaders, uvloop.new_event_loop], ids=["without readers", "uvloop"])
def test_a_loop_of_another_kind(loop, statestore_server):
    async def main(client):
        await asyncio.gather(*(client.set(f"key/{i}", str(i)) for i in range(1000)))
        async with client.observe("key") as changes:
            waiting = asyncio.create_task(anext(changes))
            await client.set("key", "value")
            assert (await waiting).value == b"value"
        return len([key async for key in client.scan("key/*")])

    assert run(statestore_server, main, loop()) == 1000


def test_a_forgotten_client_leaves_nothing_in_the_loop(statestore_server):
    async def main():
        loop = asyncio.get_running_loop()
        before = len(loop._selector.get_map())
        client = await aio.connect(statestore_server.url)
        assert len(loop._selector.get_map()) == before + 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del client
            gc.collect()
        assert [warning.category for warning in caught] == [ResourceWarning]
        # A warning keeps what it is about.
        caught.clear()
        while len(loop._selector.get_map()) > before:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(main(), HANG_TIMEOUT))


def test_cancelling_connect():
    async def main(url):
        connecting = asyncio.create_task(aio.connect(url))
        await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

    # It accepts, and says nothing.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(main(f"mqtt://127.0.0.1:{silent.getsockname()[1]}"))
