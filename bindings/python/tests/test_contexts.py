"""Functions of the caller run in the context (`contextvars`) of the call that they were given to."""

import asyncio
import contextvars
import queue

import pytest

from statestore import aio

HANG_TIMEOUT = 30
request = contextvars.ContextVar("request", default="none")


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_the_function_of_update_in_asyncio(kind, statestore_server):
    async def main():
        async def connected():
            request.set("connect")
            return await aio.connect(statestore_server.url)

        client = await asyncio.ensure_future(connected())

        async def updating(name):
            request.set(name)
            seen = []

            async def coroutine(old):
                seen.append(request.get())
                await asyncio.sleep(0)
                seen.append(request.get())
                return name

            def plain(old):
                seen.extend([request.get(), request.get()])
                return name

            await client.update("key", plain if kind == "plain" else coroutine)
            return seen

        for name in ("first", "second"):
            assert await asyncio.ensure_future(updating(name)) == [name, name]
        await client.close()

    asyncio.run(main())


def test_the_function_of_a_blocking_update(statestore_client):
    request.set("caller")
    seen = []
    statestore_client.update("key", lambda old: seen.append(request.get()))
    assert seen == ["caller"]


def test_a_callback_of_a_blocking_client(statestore_client):
    seen = queue.Queue()
    observers = []

    def observe(name):
        request.set(name)
        observers.append(statestore_client.observe(name, lambda _: seen.put((name, request.get()))))

    for name in ("first", "second"):
        contextvars.copy_context().run(observe, name)
    for name in ("first", "second"):
        statestore_client.set(name, "value")
        assert seen.get(timeout=HANG_TIMEOUT) == (name, name)


def test_a_callback_in_asyncio(statestore_server):
    async def main():
        seen = asyncio.Queue()

        async def observe(client, name):
            request.set(name)
            await client.observe(name, lambda _: seen.put_nowait((name, request.get())))

        async with aio.connect(statestore_server.url) as client:
            for name in ("first", "second"):
                await asyncio.ensure_future(observe(client, name))
            for name in ("first", "second"):
                await client.set(name, "value")
                assert await asyncio.wait_for(seen.get(), HANG_TIMEOUT) == (name, name)

    asyncio.run(main())


def test_the_work_of_with_lock(statestore_client, statestore_server):
    request.set("caller")
    assert statestore_client.with_lock("door", lambda guard: request.get()) == "caller"

    async def main():
        async with aio.connect(statestore_server.url) as client:
            request.set("task")
            assert await client.with_lock("door", lambda guard: request.get()) == "task"

    asyncio.run(main())
