"""Guards as context managers, and how they tell of a loss."""

import inspect
import os
import signal
import threading

import pytest

import statestore
from statestore import LockLostError

HANG_TIMEOUT = 30


def test_a_lost_lock(face, connect):
    client, thief = connect(), connect()
    guard = face.run(client.lock("door", duration=0.3, renewal="manual"))
    assert face.run(guard.lost(timeout=0)) is None
    assert guard.reason() is None and guard.lost_reason() is None
    assert face.run(guard.lost(timeout=HANG_TIMEOUT)) == "expired"
    assert not guard.is_valid()
    assert guard.lost_reason() == "expired"
    # Its time is the reason; there is no more to say.
    assert guard.reason() is None
    with pytest.raises(LockLostError, match="not renewed in time"):
        face.run(guard.set("key", "value"))
    face.run(thief.lock("door", wait=HANG_TIMEOUT))


def test_a_lock_taken_by_another_client(face, connect):
    client, thief = connect(), connect()
    guard = face.run(client.lock("door", renewal="manual"))
    face.run(thief.set("door", "thief"))
    with pytest.raises(LockLostError):
        face.run(guard.renew())
    assert face.run(guard.lost(timeout=HANG_TIMEOUT)) == "taken"
    assert guard.lost_reason() == "taken"
    assert isinstance(guard.reason(), LockLostError)


def test_releasing_a_lock_ends_the_wait_for_its_loss(face, connect):
    guard = face.run(connect().lock("door"))
    assert face.run(guard.release()) is statestore.Release.RELEASED
    assert face.run(guard.release()) is statestore.Release.NOT_HELD
    assert face.run(guard.lost()) == "released"
    assert guard.lost_reason() == "released"


def test_a_lock_that_ends_with_its_client(face, connect):
    client = connect()
    guard = face.run(client.lock("door"))
    face.run(client.close())
    assert guard.lost_reason() == "closed"


def test_a_release_is_bounded_by_its_timeout_and_the_lease(face, connect, statestore_server):
    client = connect()
    held, lead = face.run(client.lock("door")), face.run(client.election("chief").campaign("me"))
    lost = face.run(client.lock("short", duration=0.5))
    os.kill(statestore_server.pid, signal.SIGSTOP)
    try:
        for give_back in (held.release, lead.resign):
            with pytest.raises(statestore.TimedOutError, match="in the background") as raised:
                face.run(give_back(timeout=0.1))
            assert raised.value.outcome == "unknown"
        assert not held.is_valid()
        assert face.run(lost.lost(timeout=HANG_TIMEOUT)) == "expired"
        assert face.run(lost.release()) is statestore.Release.NOT_HELD
    finally:
        os.kill(statestore_server.pid, signal.SIGCONT)
    face.run(connect().lock("door", wait=HANG_TIMEOUT))


# How work under a lock is done: each runs it, and leaves the lock.


def with_lock(face, client, work, **options):
    return face.run(client.with_lock("door", work, **options))


def block(face, client, work, **options):
    if face.name == "blocking":
        with client.lock("door", **options) as guard:
            return work(guard)

    async def awaited():
        async with client.lock("door", **options) as guard:
            result = work(guard)
            return await result if inspect.isawaitable(result) else result

    return face.run(awaited())


def campaign(face, client, work, **options):
    election = client.election("door", **options)
    if face.name == "blocking":
        with election.campaign("ann") as leadership:
            return work(leadership.guard)

    async def awaited():
        async with election.campaign("ann") as leadership:
            result = work(leadership.guard)
            return await result if inspect.isawaitable(result) else result

    return face.run(awaited())


def for_face(face, work):
    """A function that waits, for a face where waiting is awaited."""
    if face.name == "blocking":
        return work

    async def awaited(guard):
        steps = work(guard)
        return await steps if inspect.isawaitable(steps) else steps

    return awaited


WAYS = pytest.mark.parametrize("run", [with_lock, block, campaign])


@WAYS
def test_work_under_a_lock_that_is_held(run, face, connect):
    client = connect()
    assert run(face, client, for_face(face, lambda guard: guard.is_valid())) is True
    assert face.run(client.lease("door").holder()) is None


@WAYS
def test_a_lost_lock_is_an_error_although_the_work_succeeded(run, face, connect):
    client = connect()
    with pytest.raises(LockLostError, match="working under the lock.*not renewed in time") as raised:
        run(face, client, lambda guard: guard.lost(timeout=HANG_TIMEOUT), duration=0.2, renewal="manual")
    assert raised.value.outcome == "unknown"


@WAYS
def test_a_lock_found_missing_is_lost(run, face, connect):
    client, thief = connect(), connect()
    with pytest.raises(LockLostError, match="found gone") as raised:
        run(face, client, lambda _: thief.delete("door"), renewal="manual")
    assert raised.value.outcome == "unknown"


@WAYS
def test_the_error_of_the_work_wins(run, face, connect, caplog):
    client = connect()

    def work(guard):
        if face.name == "blocking":
            guard.lost(timeout=HANG_TIMEOUT)
            raise KeyError("the work failed")

        async def awaited():
            try:
                await guard.lost(timeout=HANG_TIMEOUT)
            finally:
                raise KeyError("the work failed")

        return awaited()

    with pytest.raises(KeyError, match="the work failed"):
        run(face, client, work, duration=0.2, renewal="manual")
    # It says so, a moment later.
    while not any("its lock was lost" in record.message for record in caplog.records):
        face.run(client.get("key"))


@WAYS
def test_a_lock_released_inside_the_block_is_not_lost(run, face, connect):
    assert run(face, connect(), lambda guard: guard.release()) is statestore.Release.RELEASED


@WAYS
def test_a_lost_lock_released_inside_the_block_is_lost(run, face, connect):
    async def awaited(guard):
        await guard.lost()
        return await guard.release()

    def work(guard):
        return (guard.lost(), guard.release()) if face.name == "blocking" else awaited(guard)

    with pytest.raises(LockLostError):
        run(face, connect(), work, duration=0.2, renewal="manual")


@WAYS
def test_a_closed_client_is_a_lost_lock(run, face, connect):
    client = connect()
    with pytest.raises(LockLostError, match="closed"):
        run(face, client, lambda _: client.close())


@WAYS
def test_a_failed_release_is_no_error(run, face, start_server):
    server = start_server()
    client = face.run(face.module.connect(server.url))

    def work(guard):
        server.kill()
        return guard.is_valid()

    assert run(face, client, for_face(face, work), duration=1.0, renewal="manual") is True
    face.run(client.close())


@pytest.mark.parametrize("end", ["release", "__aexit__", "close"])
def test_a_lock_is_released_although_the_release_is_cancelled(end, statestore_server):
    import asyncio
    import contextlib

    from statestore import aio

    async def main():
        async with aio.connect(statestore_server.url) as other:
            for _ in range(20):
                client = await aio.connect(statestore_server.url)
                guard = await client.lock("door", wait=HANG_TIMEOUT)
                calls = {"close": client.close, "__aexit__": lambda guard=guard: guard.__aexit__(None, None, None)}
                ending = asyncio.ensure_future((calls.get(end) or getattr(guard, end))())
                # One step: it begins.
                await asyncio.sleep(0)
                ending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await ending
                # A client that is asked to close again has nothing left to close.
                async with other.lock("door", wait=HANG_TIMEOUT):
                    assert not guard.is_valid()
                await client.close()

    asyncio.run(main())


def test_cancelled_work_of_asyncio_ends_before_its_lock_is_released(statestore_server):
    import asyncio

    from statestore import aio

    async def main():
        async with aio.connect(statestore_server.url) as client, aio.connect(statestore_server.url) as other:
            began, may_end = asyncio.Event(), asyncio.Event()

            async def work(_):
                began.set()
                try:
                    await asyncio.sleep(HANG_TIMEOUT)
                finally:
                    await may_end.wait()

            locked = asyncio.create_task(client.with_lock("door", work))
            await began.wait()
            locked.cancel()
            for _ in range(10):
                await other.get("key")
            assert await other.lease("door").holder() is not None
            assert not locked.done()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await locked
            assert await other.lease("door").holder() is None

    asyncio.run(main())


def test_a_with_statement_releases_the_lock(statestore_client):
    with pytest.raises(KeyError), statestore_client.lock("door"):
        assert statestore_client.lease("door").holder() is not None
        raise KeyError
    assert statestore_client.lease("door").holder() is None


def test_an_async_with_statement_does_too(statestore_server):
    import asyncio

    from statestore import aio

    async def main():
        async with aio.connect(statestore_server.url) as client:
            with pytest.raises(KeyError):
                async with client.lock("door"):
                    assert await client.lease("door").holder() is not None
                    raise KeyError
            assert await client.lease("door").holder() is None
            async with client.election("chief").campaign("ann") as leadership:
                assert leadership.guard.is_valid()
            assert await client.election("chief").leader() is None

    asyncio.run(main())


def test_with_lock(statestore_client):
    def work(guard):
        return guard.set("key", "value").applied, statestore_client.lease("door").holder() is not None

    assert statestore_client.with_lock("door", work, wait=HANG_TIMEOUT) == (True, True)
    assert statestore_client.lease("door").holder() is None


def test_with_lock_in_asyncio_cancels_the_work_when_the_lock_is_lost(statestore_server):
    import asyncio

    from statestore import aio

    ended = []

    async def work(guard):
        assert (await guard.set("key", "value")).applied
        try:
            await asyncio.sleep(HANG_TIMEOUT)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main():
        async with aio.connect(statestore_server.url) as client:
            with pytest.raises(LockLostError):
                await client.with_lock("door", work, duration=0.3, renewal="manual")

            async def quick(guard):
                return guard.token

            assert isinstance(await client.with_lock("door", quick, wait=HANG_TIMEOUT), statestore.Hlc)

    asyncio.run(main())
    assert ended == ["cancelled"]


def test_an_exception_of_the_function_ends_the_update(face, connect):
    client = connect()

    def change(_):
        raise LookupError("no change")

    with pytest.raises(LookupError, match="no change"):
        face.run(client.update("key", change))
    with pytest.raises(TypeError, match="the new value"):
        face.run(client.update("key", lambda _: 1))
    assert face.run(client.get("key")) is None


def test_other_operations_continue_while_an_update_function_runs(statestore_server):
    with statestore.connect(statestore_server.url) as client:
        renewals = threading.Semaphore(0)
        with client.lock("door", duration=1.0) as guard:
            with client.observe("door", lambda _: renewals.release()):

                def change(_):
                    # The lock is renewed meanwhile: the last one of these is over long after its lease would be.
                    renewed = all(renewals.acquire(timeout=HANG_TIMEOUT) for _ in range(5))
                    return client.get("new").value if renewed else None

                client.set("new", "value")
                assert client.update("key", change)
            assert guard.is_valid()
        assert client.get("key").value == b"value"


def test_the_function_of_an_update_may_be_a_coroutine_function(statestore_server):
    import asyncio

    from statestore import aio

    async def main():
        async with aio.connect(statestore_server.url) as client:

            async def change(old):
                await asyncio.sleep(0)
                return (old.value if old else b"") + b"x"

            async def failing(_):
                raise LookupError("no change")

            results = await asyncio.gather(*(client.update("key", change) for _ in range(5)))
            assert all(results)
            assert (await client.get("key")).value == b"xxxxx"
            with pytest.raises(LookupError, match="no change"):
                await client.update("key", failing)

    asyncio.run(main())
