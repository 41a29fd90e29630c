"""Mirrors for asyncio."""

import asyncio
import functools

from statestore import _blocking, _native
from statestore._blocking import _Generic
from statestore._errors import QueueFullError, StateStoreError
from statestore._mirror import MirrorBase, MirrorChangesBase, seconds

# Events that a mirror applies before other tasks have their turn.
_EVENTS_PER_TURN = 256

# Seconds before the next attempt to wait if too many calls are under way.
_QUEUE_FULL_DELAY = 0.01


class Mirror(_Generic, MirrorBase):
    __doc__ = MirrorBase.__doc__

    _close_observer = staticmethod(_native.Observer.close)

    def _start_task(self, next_item):
        """Follows the observer from now on. Returns the mirror. ``next_item`` awaits an observation."""
        # The loop keeps no strong reference to its tasks.
        self._task = asyncio.ensure_future(_run(self, next_item))
        return self

    @functools.wraps(_blocking.Mirror.synced)
    async def synced(self, *, timeout=None):
        self._check_process()
        await _wait_event(self, self._is_settled, timeout)
        self._check_end()

    @functools.wraps(_blocking.Mirror.close)
    async def close(self):
        self._check_process()
        self._end(None, "closed")

    async def aclose(self):
        """Closes the mirror as `close` does, for `contextlib.aclosing`."""
        await self.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()


class MirrorChanges(_Generic, MirrorChangesBase):
    __doc__ = MirrorChangesBase.__doc__

    @functools.wraps(_blocking.MirrorChanges.next)
    async def next(self, *, timeout=None):
        self._mirror._check_process()
        while True:
            is_found, event = self._take()
            if is_found:
                return event
            await _wait_event(self._mirror, self._is_ready, timeout)

    def __aiter__(self):
        return self

    async def __anext__(self):
        event = await self.next()
        if event is None:
            raise StopAsyncIteration
        return event


Mirror._changes_class = MirrorChanges


async def _run(mirror, next_item):
    """Passes each event to a mirror, and the end."""
    applied = 0
    while not mirror._is_ended:
        try:
            event = await next_item(mirror._observer._pending_observation(None))
        except QueueFullError:
            await asyncio.sleep(_QUEUE_FULL_DELAY)
            continue
        except (StateStoreError, UnicodeError) as error:
            event = error
        mirror._on_event(mirror._observer.error() if event is None else event)
        applied += 1
        if applied % _EVENTS_PER_TURN == 0:
            await asyncio.sleep(0)


async def _wait_event(mirror, event, timeout):
    """Waits for an event of a mirror."""
    try:
        await asyncio.wait_for(event.wait(), seconds(timeout))
    except asyncio.TimeoutError:
        raise mirror._timed_out(timeout) from None
