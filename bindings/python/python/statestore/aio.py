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
import contextlib
import functools
import inspect
import sys

from statestore import _blocking, _exit, _log, _native
from statestore._aio_docs import asyncio_doc
from statestore._aio_mirror import Mirror, MirrorChanges
from statestore._blocking import _client_destructor, _destructor, _drop_requests, _Generic, _guard_destructor, _settings, _suppress_after_error
from statestore._coroutines import async_context, completed, coroutine
from statestore._errors import ClosedError, ForkedError, InternalError, QueueFullError, StateStoreError
from statestore._mirror import MAX_BYTES, check_max_bytes

__all__ = [
    "Client",
    "Election",
    "Guard",
    "Leadership",
    "Lease",
    "Mirror",
    "MirrorChanges",
    "Observer",
    "Pipeline",
    "Scan",
    "Transaction",
    "connect",
]


async def _next_item(poll):
    """Returns the item of ``poll``. An item is taken only when it exists, so a cancelled wait takes nothing."""
    while type(found := poll()) is _native.Pending:
        found = completed(found)
        await found
    return found


async def _await_update(update, key, change, options):
    """Awaits an update whose function may return something to be awaited."""
    computing = set()

    def compute(old):
        result = change(old)
        if inspect.isawaitable(result):
            result = asyncio.ensure_future(result)
            computing.add(result)
            result.add_done_callback(computing.discard)
        return result

    try:
        return await update(key, compute if callable(change) else change, **options)
    finally:
        # An update that was given up or whose client was closed wants no new value any more.
        for task in [*computing]:
            task.cancel()
            await _wait_cancelled(task)


class Client(_Generic, _native.Client):
    __doc__ = _native.Client.__doc__

    # Set by `connect`: host and port of the broker, or its socket.
    _address = ""

    get = coroutine(_native.Client.get)
    get_many = coroutine(_native.Client.get_many)
    set = coroutine(_native.Client.set)
    set_many = coroutine(_native.Client.set_many)
    delete = coroutine(_native.Client.delete)
    delete_many = coroutine(_native.Client.delete_many)
    vdel = coroutine(_native.Client.vdel)
    exists = coroutine(_native.Client.exists)
    ttl = coroutine(_native.Client.ttl)
    touch = coroutine(_native.Client.touch)
    incr = coroutine(_native.Client.incr)
    ping = coroutine(_native.Client.ping)
    capabilities = coroutine(_native.Client.capabilities)
    transact = coroutine(_native.Client.transact)
    lock = async_context(coroutine(_native.Client.lock))
    close = coroutine(_native.Client.close)
    _connect = coroutine(_native.Client._connect)
    _observe = coroutine(_native.Client.observe)
    _observe_matching = coroutine(_native.Client.observe_matching)
    _update = coroutine(_native.Client.update)

    @functools.wraps(_native.Client.update)
    async def update(self, key, change, **options):
        return await _await_update(self._update, key, change, options)

    @async_context
    @functools.wraps(_native.Client.observe)
    async def observe(self, key, callback=None, **options):
        return (await self._observe(key, callback, **options))._start_callback(callback)

    @async_context
    @functools.wraps(_native.Client.observe_matching)
    async def observe_matching(self, pattern, callback=None, **options):
        return (await self._observe_matching(pattern, callback, **options))._start_callback(callback)

    @async_context
    @functools.wraps(_blocking.Client.mirror)
    async def mirror(self, pattern, *, refresh=10.0, max_keys=1_000_000, max_bytes=MAX_BYTES, timeout=None):
        check_max_bytes(max_bytes)
        mirror = Mirror(self, max_keys, max_bytes, asyncio.Event)
        observer = await self._observe_matching(pattern, refresh=refresh, max_keys=max_keys, timeout=timeout)
        return mirror._start(observer)._start_task(_next_item)

    @functools.wraps(_native.Client.states)
    def states(self, callback=None):
        return super().states(callback)._start_callback(callback)

    async def with_lock(self, name, work, **options):
        """Takes the lock, awaits ``work`` with its guard, gives the lock back, and returns what ``work`` returned.

        The options are those of `lock`. If ``work`` fails, that is raised. If the lock is lost meanwhile, ``work`` is cancelled,
        and `LockLostError` raised, also if it returned something: it may have been done without the lock. The lock is given
        back when ``work`` has really ended, also if this call is cancelled.
        """
        async with self.lock(name, **options) as guard:
            return await _run_while_held(guard, work)

    async def aclose(self, *, timeout=5.0):
        """Closes the client as `close` does, for `contextlib.aclosing`."""
        await self.close(timeout=timeout)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    __del__ = _destructor(_client_destructor)


class Observer(_Generic, _native.Observer):
    __doc__ = _native.Observer.__doc__

    _callback_task = None

    @functools.wraps(_native.Observer.next)
    async def next(self, *, timeout=None):
        return await _next_item(self._pending_observation(timeout))

    @functools.wraps(_native.Observer.close)
    async def close(self):
        super().close()

    async def aclose(self):
        """Closes the observer as `close` does, for `contextlib.aclosing`."""
        await self.close()

    def _start_callback(self, callback):
        """Has a callback called with each observation from now on."""
        if callback is not None:
            # The loop keeps no strong reference to its tasks.
            self._callback_task = asyncio.ensure_future(_run_callback(self, callback))
            _callback_tasks.add(self._callback_task)
            self._callback_task.add_done_callback(_callback_tasks.discard)
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

    _items = iter(())

    @functools.wraps(_native.Scan.next_page)
    async def next_page(self):
        return await _next_item(super().next_page)

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            for item in self._items:
                return item
            page = await self.next_page()
            if page is None:
                raise StopAsyncIteration
            self._items = iter(page)


class Pipeline(_Generic, _native.Pipeline):
    __doc__ = _native.Pipeline.__doc__

    execute = coroutine(_native.Pipeline.execute)

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, *_):
        _drop_requests(self, kind)


class Transaction(_Generic, _native.Transaction):
    __doc__ = _native.Transaction.__doc__


class Lease(_Generic, _native.Lease):
    __doc__ = _native.Lease.__doc__

    acquire = coroutine(_native.Lease.acquire)
    release = coroutine(_native.Lease.release)
    holder = coroutine(_native.Lease.holder)
    _observe = coroutine(_native.Lease.observe)

    @async_context
    @functools.wraps(_native.Lease.observe)
    async def observe(self, callback=None):
        return (await self._observe(callback))._start_callback(callback)


class Guard(_Generic, _native.Guard):
    __doc__ = _native.Guard.__doc__

    def __bool__(self):
        """Returns true, unlike `Held`."""
        return True

    lost = coroutine(_native.Guard.lost)
    renew = coroutine(_native.Guard.renew)
    release = coroutine(_native.Guard.release)
    leave = coroutine(_native.Guard.leave)
    _finish = coroutine(_native.Guard._finish)
    set = coroutine(_native.Guard.set)
    delete = coroutine(_native.Guard.delete)
    vdel = coroutine(_native.Guard.vdel)
    _update = coroutine(_native.Guard.update)

    @functools.wraps(_native.Guard.update)
    async def update(self, key, change, **options):
        return await _await_update(self._update, key, change, options)

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, *_):
        with _suppress_after_error(kind):
            await self._finish(kind is not None)

    __del__ = _destructor(_guard_destructor)


class Election(_Generic, _native.Election):
    __doc__ = _native.Election.__doc__

    campaign = async_context(coroutine(_native.Election.campaign))
    leader = coroutine(_native.Election.leader)
    _observe = coroutine(_native.Election.observe)

    @async_context
    @functools.wraps(_native.Election.observe)
    async def observe(self, callback=None):
        return (await self._observe(callback))._start_callback(callback)


class Leadership(_Generic, _native.Leadership):
    __doc__ = _native.Leadership.__doc__

    proclaim = coroutine(_native.Leadership.proclaim)
    resign = coroutine(_native.Leadership.resign)
    _finish = coroutine(_native.Leadership._finish)

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, *_):
        with _suppress_after_error(kind):
            await self._finish(kind is not None)

    __del__ = _destructor(_guard_destructor)


@async_context
async def connect(*args, **kwargs):
    """Connects to a broker; the client belongs to the event loop that runs now. The arguments are those of
    `statestore.connect`. Await it, or use it in ``async with``.
    """
    settings = _settings(args, kwargs)
    client = Client(settings, sys.modules[__name__], asyncio=True)
    client._address = settings.address
    _log.forward()
    try:
        await client._connect()
    except BaseException:
        _native.close_each([client], 0.0)
        raise
    _exit.remember(client)
    return client


def _plain(method):
    """A method that does not wait."""

    @functools.wraps(method)
    def call(self, /, *args, **kwargs):
        return method(self, *args, **kwargs)

    return call


for _class in (Client, Observer, Mirror, MirrorChanges, Scan, Pipeline, Transaction, Lease, Guard, Election, Leadership):
    for _name in dir(_class):
        _method = getattr(_class, _name)
        if not _name.startswith("_") and callable(_method) and ">>> " in (_method.__doc__ or ""):
            if _name not in vars(_class):
                _method = _plain(_method)
                setattr(_class, _name, _method)
            _method.__doc__ = asyncio_doc(_method.__doc__)

# Where `inspect.signature` finds the arguments.
connect.__wrapped__ = _native.Settings

_callback_tasks = set()

# Seconds until a look is tried again that could not be because too many calls were under way.
_QUEUE_FULL_DELAY = 0.01


async def _run_callback(observer, callback):
    """Calls a callback with each observation. An exception of it does not end the observations."""
    while True:
        try:
            item = await _next_item(observer._pending_observation(None, True))
        except QueueFullError:
            # Too many calls of others are under way for a look. What happens meanwhile waits in the observer.
            await asyncio.sleep(_QUEUE_FULL_DELAY)
            continue
        except (StateStoreError, UnicodeError) as error:
            # There was one, of which no object could be made; or there is no further one.
            _report(error, callback)
            if isinstance(error, (ClosedError, ForkedError, InternalError)):
                return
            continue
        if item is None:
            if (error := observer.error()) is not None:
                _report(error, callback)
            return
        await _call_once(callback, item)


async def _call_once(callback, item):
    task = None
    with _reporting_errors(callback):
        result = callback(item)
        if inspect.isawaitable(result):
            # A task of its own, so that a cancellation inside is not taken for one of the observer.
            task = asyncio.ensure_future(result)
    if task is None:
        return
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await _wait_cancelled(task)
        raise
    with _reporting_errors(callback):
        task.result()


@contextlib.contextmanager
def _reporting_errors(callback):
    """Reports an exception of a callback, for which no call waits."""
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        _report(error, callback)


async def _wait_lost(guard):
    """Waits for the loss of a lock, however many calls are under way."""
    while True:
        with contextlib.suppress(QueueFullError):
            return await guard.lost()
        await asyncio.sleep(_QUEUE_FULL_DELAY)


async def _run_while_held(guard, work):
    """Awaits ``work``, and cancels it when the lock is lost: that is said when the lock is left."""
    worker = asyncio.ensure_future(_call_maybe_async(work, guard))
    loss = asyncio.ensure_future(_wait_lost(guard))
    try:
        await asyncio.wait({worker, loss}, return_when=asyncio.FIRST_COMPLETED)
        if not worker.done() and guard.lost_reason() == "released":
            # By the work itself, which goes on.
            await asyncio.wait({worker})
        if not worker.done():
            worker.cancel()
            await _wait_cancelled(worker)
            if worker.cancelled():
                return None
    except asyncio.CancelledError:
        worker.cancel()
        await _wait_cancelled(worker)
        if worker.cancelled() or worker.exception() is None:
            raise
    finally:
        loss.cancel()
    return worker.result()


async def _wait_cancelled(task):
    """Waits for the end of a task that was cancelled. To be cancelled meanwhile is to cancel that one again."""
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            task.cancel()
    if cancelled is not None:
        raise cancelled


def _report(error, callback):
    asyncio.get_running_loop().call_exception_handler(
        {"message": f"Exception in a callback of an observer: {callback!r}", "exception": error}
    )


async def _call_maybe_async(function, argument):
    result = function(argument)
    return await result if inspect.isawaitable(result) else result


def __dir__():
    return sorted(__all__)
