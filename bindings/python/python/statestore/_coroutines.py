"""Methods of the native half as coroutine functions, and coroutines whose results are context managers."""

import collections.abc
import functools

from statestore import _native


def coroutine(method):
    """A method of the native half as a coroutine function."""

    @functools.wraps(method)
    async def call(self, /, *args, **kwargs):
        result = method(self, *args, **kwargs)
        if type(result) is not _native.Pending:
            return result
        result = completed(result)
        return await result

    return call


async def completed(pending):
    """The result of an operation. Only the caller keeps the operation: its future has the exception, which has the frames."""
    try:
        return await pending.future
    except BaseException:
        # No caller waits for the result any more; an operation that has ended ignores this.
        pending.cancel()
        del pending
        raise


class AsyncContextCoroutine(collections.abc.Coroutine):
    """A coroutine whose result is a context manager: ``await`` it, or use it in ``async with``."""

    __slots__ = ("_coroutine", "_opened")

    def __init__(self, coroutine):
        self._coroutine = coroutine

    def __await__(self):
        return self._coroutine.__await__()

    def send(self, value):
        return self._coroutine.send(value)

    def throw(self, *args):
        return self._coroutine.throw(*args)

    def close(self):
        self._coroutine.close()

    async def __aenter__(self):
        self._opened = await self._coroutine
        return await self._opened.__aenter__()

    async def __aexit__(self, *args):
        return await self._opened.__aexit__(*args)


def async_context(function):
    """A coroutine function whose result is a context manager."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return AsyncContextCoroutine(function(*args, **kwargs))

    return call
