"""The two faces, for tests that are to hold for both."""

import asyncio
import inspect
import time

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

    def turn(self):
        """Lets others do something."""
        time.sleep(0.001)

    def collect(self, items, into=None):
        """The items, also those before an error if there is a list for them."""
        into = [] if into is None else into
        for item in items:
            into.append(item)
        return into


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

    def turn(self):
        self.loop.run_until_complete(asyncio.sleep(0.001))

    def collect(self, items, into=None):
        into = [] if into is None else into

        async def collected():
            async for item in items:
                into.append(item)

        self.loop.run_until_complete(collected())
        return into


FACES = [Blocking, Asyncio]
