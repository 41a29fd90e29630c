"""The two faces, for tests that are to hold for both."""

import asyncio
import inspect

import statestore
from statestore import aio


class Blocking:
    name = "blocking"
    module = statestore

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, result):
        """The result of a call."""
        return result

    def collect(self, items):
        return list(items)


class Asyncio:
    name = "asyncio"
    module = aio

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        return self

    def __exit__(self, *_):
        self.loop.close()

    def run(self, result):
        async def awaited():
            return await result if inspect.isawaitable(result) else result

        return self.loop.run_until_complete(awaited())

    def collect(self, items):
        async def collected():
            return [item async for item in items]

        return self.loop.run_until_complete(collected())


FACES = [Blocking, Asyncio]
