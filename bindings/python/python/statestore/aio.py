"""The state store for asyncio: the names, arguments and defaults of `statestore`, as coroutines.

A client belongs to the event loop that runs when it is connected. No call uses a thread of its own: results come from one
thread of the library into the event loop, many at a time. A task that is cancelled cancels its call.

    async with aio.connect("mqtt://localhost") as client:
        await client.set("greeting", "hello")
        async with client.observe("greeting") as changes:
            async for change in changes:
                print(change)
"""

import asyncio
import collections.abc
import functools
import inspect
import sys

from statestore import _exit, _log, _native
from statestore._blocking import _Generic, _lost, _quietly_after, _warn_of_unclosed

__all__ = ["Client", "Election", "Guard", "Leadership", "Lease", "Observer", "Scan", "connect"]


def _coroutine(method):
    """A method of the native half as a coroutine function."""

    @functools.wraps(method)
    async def call(self, /, *args, **kwargs):
        result = method(self, *args, **kwargs)
        if type(result) is not _native.Pending:
            return result
        try:
            return await result.future
        except BaseException:
            # Ended is ended; what is still under way has nobody to tell.
            result.cancel()
            # The exception has this frame, and the future has the exception.
            del result
            raise

    return call


class _Opening(collections.abc.Coroutine):
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


def _opening(function):
    """A coroutine function whose result is a context manager."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return _Opening(function(*args, **kwargs))

    return call


class Client(_Generic, _native.Client):
    __doc__ = _native.Client.__doc__

    get = _coroutine(_native.Client.get)
    get_many = _coroutine(_native.Client.get_many)
    set = _coroutine(_native.Client.set)
    delete = _coroutine(_native.Client.delete)
    vdel = _coroutine(_native.Client.vdel)
    update = _coroutine(_native.Client.update)
    lock = _opening(_coroutine(_native.Client.lock))
    close = _coroutine(_native.Client.close)
    _connect = _coroutine(_native.Client._connect)
    _observe = _coroutine(_native.Client.observe)

    @_opening
    @functools.wraps(_native.Client.observe)
    async def observe(self, key, callback=None, **options):
        return (await self._observe(key, callback, **options))._told(callback)

    @functools.wraps(_native.Client.states)
    def states(self, callback=None):
        return super().states(callback)._told(callback)

    async def with_lock(self, name, work, **options):
        """Takes the lock, awaits ``work`` with its guard, gives the lock back, and returns what ``work`` returned.

        The options are those of `lock`. If the lock is lost meanwhile, ``work`` is cancelled, and `LockLostError` raised.
        """
        async with self.lock(name, **options) as guard:
            worker = asyncio.ensure_future(_awaited(work, guard))
            loss = asyncio.ensure_future(guard.lost())
            try:
                await asyncio.wait({worker, loss}, return_when=asyncio.FIRST_COMPLETED)
                if worker.done():
                    return worker.result()
                worker.cancel()
                await asyncio.wait({worker})
                raise _lost(guard)
            finally:
                worker.cancel()
                loss.cancel()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    def __del__(self):
        _warn_of_unclosed(self)


class Observer(_Generic, _native.Observer):
    __doc__ = _native.Observer.__doc__

    _teller = None

    next = _coroutine(_native.Observer.next)

    @functools.wraps(_native.Observer.close)
    async def close(self):
        super().close()

    def _told(self, callback):
        """Has a callback called with each observation from now on."""
        if callback is not None:
            # The loop keeps no strong reference to its tasks.
            self._teller = asyncio.ensure_future(_tell(self, callback))
            _tellers.add(self._teller)
            self._teller.add_done_callback(_tellers.discard)
        return self

    def __aiter__(self):
        return self

    async def __anext__(self):
        item = await self.next()
        if item is None:
            raise self.error() or StopAsyncIteration
        return item

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()


class Scan(_Generic, _native.Scan):
    __doc__ = _native.Scan.__doc__

    _keys = iter(())

    next_page = _coroutine(_native.Scan.next_page)

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            for key in self._keys:
                return key
            page = await self.next_page()
            if page is None:
                raise StopAsyncIteration
            self._keys = iter(page)


class Lease(_Generic, _native.Lease):
    __doc__ = _native.Lease.__doc__

    acquire = _coroutine(_native.Lease.acquire)
    release = _coroutine(_native.Lease.release)
    holder = _coroutine(_native.Lease.holder)
    _observe = _coroutine(_native.Lease.observe)

    @_opening
    @functools.wraps(_native.Lease.observe)
    async def observe(self, callback=None):
        return (await self._observe(callback))._told(callback)


class Guard(_Generic, _native.Guard):
    __doc__ = _native.Guard.__doc__

    def __bool__(self):
        """It is true, so that it can be told from `Held`."""
        return True

    lost = _coroutine(_native.Guard.lost)
    renew = _coroutine(_native.Guard.renew)
    release = _coroutine(_native.Guard.release)
    leave = _coroutine(_native.Guard.leave)
    set = _coroutine(_native.Guard.set)
    delete = _coroutine(_native.Guard.delete)
    vdel = _coroutine(_native.Guard.vdel)

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, *_):
        with _quietly_after(kind):
            await self.release()


class Election(_Generic, _native.Election):
    __doc__ = _native.Election.__doc__

    campaign = _opening(_coroutine(_native.Election.campaign))
    leader = _coroutine(_native.Election.leader)
    _observe = _coroutine(_native.Election.observe)

    @_opening
    @functools.wraps(_native.Election.observe)
    async def observe(self, callback=None):
        return (await self._observe(callback))._told(callback)


class Leadership(_Generic, _native.Leadership):
    __doc__ = _native.Leadership.__doc__

    proclaim = _coroutine(_native.Leadership.proclaim)
    resign = _coroutine(_native.Leadership.resign)

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, *_):
        with _quietly_after(kind):
            await self.resign()


@_opening
async def connect(*args, **kwargs):
    """Connects to a broker; the client belongs to the event loop that runs now. The arguments are those of
    `statestore.connect`. Await it, or use it in ``async with``.
    """
    client = Client(_native.Settings(*args, **kwargs), sys.modules[__name__], asyncio=True)
    _log.forward()
    try:
        await client._connect()
    except BaseException:
        client._close_within(0.0)
        raise
    _exit.remember(client)
    return client


connect.__signature__ = inspect.signature(_native.Settings)

_tellers = set()


async def _tell(observer, callback):
    """Calls a callback with each observation. What it raises does not end the observations."""
    async for item in observer:
        try:
            await _awaited(callback, item)
        except Exception as error:
            sys.unraisablehook(_Unraisable(error, callback))


class _Unraisable:
    """What `sys.unraisablehook` takes."""

    err_msg = "Exception ignored in a callback"

    def __init__(self, error, callback):
        self.exc_type = type(error)
        self.exc_value = error
        self.exc_traceback = error.__traceback__
        self.object = callback


async def _awaited(function, argument):
    result = function(argument)
    return await result if inspect.isawaitable(result) else result
