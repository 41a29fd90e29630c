"""Guards as context managers, and how they tell of a loss."""

import pytest

import statestore
from statestore import LockLostError

GUARD = 30


def test_a_lost_lock(face, connect):
    client, thief = connect(), connect()
    guard = face.run(client.lock("door", duration=0.3, renewal="manual"))
    assert face.run(guard.lost(timeout=0)) is False
    assert guard.reason() is None
    assert face.run(guard.lost(timeout=GUARD)) is True
    assert not guard.is_valid()
    # Its time is the reason; somebody else would be a better one.
    assert guard.reason() is None
    with pytest.raises(LockLostError):
        face.run(guard.set("key", "value"))
    face.run(thief.lock("door", wait=GUARD))


def test_a_lock_that_somebody_took(face, connect):
    client, thief = connect(), connect()
    guard = face.run(client.lock("door", renewal="manual"))
    face.run(thief.set("door", "thief"))
    with pytest.raises(LockLostError):
        face.run(guard.renew())
    assert face.run(guard.lost(timeout=GUARD)) is True
    assert isinstance(guard.reason(), LockLostError)


def test_who_gives_a_lock_back_waits_no_more_for_its_loss(face, connect):
    guard = face.run(connect().lock("door"))
    assert face.run(guard.release()) is statestore.Release.RELEASED
    assert face.run(guard.release()) is statestore.Release.NOT_HELD
    assert face.run(guard.lost()) is True


def test_a_with_statement_gives_the_lock_back(statestore_client):
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

    assert statestore_client.with_lock("door", work, wait=GUARD) == (True, True)
    assert statestore_client.lease("door").holder() is None


def test_with_lock_when_the_lock_is_lost(statestore_client):
    with pytest.raises(LockLostError):
        statestore_client.with_lock("door", lambda guard: guard.lost(), duration=0.2, renewal="manual")


def test_with_lock_in_asyncio_cancels_the_work_when_the_lock_is_lost(statestore_server):
    import asyncio

    from statestore import aio

    ended = []

    async def work(guard):
        assert (await guard.set("key", "value")).applied
        try:
            await asyncio.sleep(GUARD)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main():
        async with aio.connect(statestore_server.url) as client:
            with pytest.raises(LockLostError):
                await client.with_lock("door", work, duration=0.3, renewal="manual")

            async def quick(guard):
                return guard.token

            assert isinstance(await client.with_lock("door", quick, wait=GUARD), statestore.Hlc)

    asyncio.run(main())
    assert ended == ["cancelled"]


def test_what_the_function_of_an_update_raises_ends_the_update(face, connect):
    client = connect()

    def change(_):
        raise LookupError("no change")

    with pytest.raises(LookupError, match="no change"):
        face.run(client.update("key", change))
    with pytest.raises(TypeError, match="the new value"):
        face.run(client.update("key", lambda _: 1))
    assert face.run(client.get("key")) is None


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
