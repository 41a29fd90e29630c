"""Common parts of the mirrors of both faces."""

import time
import weakref
from _thread import allocate_lock
from collections import OrderedDict

from statestore._errors import ClosedError, TimedOutError, TooLargeError

# Default of ``max_bytes``.
MAX_BYTES = 256 << 20


def check_max_bytes(max_bytes):
    """Rejects a limit that is not a number, before any request is sent."""
    if type(max_bytes) is not int:
        raise TypeError(f"max_bytes must be int, not {type(max_bytes).__name__}")


def seconds(timeout):
    """Returns a time-out in seconds; ``None`` for no limit."""
    if timeout is None or timeout == float("inf"):
        return None
    return timeout.total_seconds() if hasattr(timeout, "total_seconds") else timeout


class MirrorBase:
    """A local copy of all entries whose keys match a pattern, which follows the store. It continues until you close it or its client.

    After an end for another reason, the mirror keeps its last state, and `error` returns the reason.
    """

    # Set by `_start`.
    _observer = _states = _key_type = None

    def __init__(self, client, max_keys, max_bytes, event_class):
        from statestore import _results

        self._results = _results
        self._client = client
        self._max_keys = max_keys
        self._max_bytes = max_bytes
        self._event_class = event_class
        # One thread changes the entries, with one operation of the dictionary for each event. Reads need no lock.
        self._entries = {}
        self._bytes = 0
        # For the attributes below. The program may close the mirror during a callback.
        self._lock = allocate_lock()
        self._changes = ()
        self._stale_since = time.monotonic()
        self._is_complete = self._is_ended = False
        self._error = self._lost_reason = None
        # Set while the mirror is synced, and after its end.
        self._is_settled = event_class()

    def _start(self, observer):
        """Follows the connection, too. Returns the mirror."""
        self._observer = observer
        self._key_type = type(observer.key)
        try:
            self._states = self._client.states(self._on_state)
        except BaseException:
            self._stop()
            raise
        if self._is_ended:
            # It ended before it had its observers.
            self._stop()
        return self

    def get(self, key):
        """Returns the `Entry` of a key, or ``None`` if it is absent. Its ``expires_in`` is unknown. No request is sent.

        A key of the type that the client returns is found fastest: ``bytes``, or ``str`` with an ``encoding``.
        """
        if type(key) is not self._key_type:
            key = self._client._stored_key(key)
        return self._entries.get(key)

    def __contains__(self, key):
        return self.get(key) is not None

    def __len__(self):
        return len(self._entries)

    def snapshot(self):
        """Returns all entries as of one moment: a new dictionary, whose keys are those that the client returns."""
        return self._entries.copy()

    def changes(self):
        """Returns every change from now on: a `MirrorChanges`. To get the state before too, call this first and `snapshot` then.

        >>> with client.mirror("line/*") as lines:
        ...     lines.synced()
        ...     changes = lines.changes()
        ...     _ = client.set("line/1", "fast")
        ...     next(changes)  # doctest: +ELLIPSIS
        MatchSet(key=b'line/1', value=b'fast', version=Hlc('...'))
        """
        with self._lock:
            changes = self._changes_class(self, self._is_complete)
            living = [reference for reference in self._changes if reference() is not None]
            self._changes = (*living, weakref.ref(changes))
            if self._is_ended:
                changes._end()
        return changes

    def stale_since(self):
        """Returns since when the mirror may differ from the store, as `time.monotonic` counts; ``None`` while it follows every change.

        It may differ until it is first `synced`, while the connection is lost, until the differences after a gap have arrived, and
        after its end.
        """
        self._check_process()
        return self._stale_since

    @property
    def pattern(self):
        """The pattern."""
        return self._observer.key

    def lost_reason(self):
        """Returns the reason why the mirror ended: a `LostReason`; ``None`` before. ``"refused"`` also means that the entries exceed a
        limit, or that a key or value is not text of the client's ``encoding``.
        """
        self._check_process()
        return self._lost_reason

    def error(self):
        """Returns the error that ended the mirror; ``None`` before, and if the client or the mirror was closed."""
        self._check_process()
        return self._error

    def __repr__(self):
        return f"<Mirror {self.pattern!r}>"

    def _check_process(self):
        """Raises `ForkedError` in a forked process, where no event arrives."""
        return self._observer.lost_reason()

    def _check_end(self):
        """Raises the error that ended the mirror."""
        if self._is_ended:
            raise self._error or ClosedError(f"waiting for the mirror of {self.pattern!r}: it was closed", "not_done", False)

    def _timed_out(self, timeout):
        return TimedOutError(f"waiting for the mirror of {self.pattern!r}: nothing happened within {timeout} s", "not_done", True)

    def _on_event(self, event):
        """Applies an event. The end is an exception, or ``None`` if the client was closed."""
        if self._is_ended:
            return
        if event is None or isinstance(event, Exception):
            self._end(event, "refused" if isinstance(event, UnicodeError) else None)
            return
        results, kind = self._results, type(event)
        if kind is results.MatchSet:
            former = self._entries.get(event.key)
            self._entries[event.key] = results.Entry(event.value, event.version)
            self._bytes += _size(event.key) + _size(event.value)
            self._subtract(event.key, former)
        elif kind is results.MatchDeleted:
            self._subtract(event.key, self._entries.pop(event.key, None))
        elif kind is results.Resync:
            self._set_stale()
        else:
            self._set_synced()
        for reference in self._changes:
            if (changes := reference()) is not None:
                changes._push(event)
        if self._bytes > self._max_bytes:
            reason = f"the entries have {self._bytes} bytes; {self._max_bytes} are allowed (`max_bytes`)"
            self._end(TooLargeError(f"mirroring: {reason}", "not_done", False), "refused")

    def _subtract(self, key, entry):
        """Subtracts the size of an entry that is not there any more."""
        if entry is not None:
            self._bytes -= _size(key) + _size(entry.value)

    def _on_state(self, state):
        # The state of now: events of the connection and of the keys arrive in no common order.
        if state.kind == "closed":
            self._end(None if state.lost_reason == "closed" else state.reason, state.lost_reason)
        elif self._client.state().kind != "connected":
            self._set_stale()

    def _set_stale(self):
        with self._lock:
            if self._stale_since is None:
                self._stale_since = time.monotonic()
                self._is_settled.clear()

    def _set_synced(self):
        is_connected = self._client.state().kind == "connected"
        with self._lock:
            self._is_complete = True
            if is_connected and not self._is_ended:
                self._stale_since = None
                self._is_settled.set()

    def _end(self, error, lost_reason):
        """Ends the mirror. Without a reason, that of the observer is the reason."""
        with self._lock:
            if self._is_ended:
                return
            self._is_ended = True
            self._error = error
            self._lost_reason = lost_reason or (self._observer and self._observer.lost_reason()) or "refused"
            if self._stale_since is None:
                self._stale_since = time.monotonic()
            self._is_settled.set()
            for reference in self._changes:
                if (changes := reference()) is not None:
                    changes._end()
        self._stop()

    def _stop(self):
        """Ends the observers that there are."""
        for observer in (self._observer, self._states):
            if observer is not None:
                self._close_observer(observer)


class MirrorChangesBase:
    """The changes of a `Mirror`, from the moment when this was created. They end with the mirror.

    At most one event of each key waits. If you read slowly, you get the newest state of each key. The changes end if events of more
    than twice ``max_keys`` keys wait; `is_lagging` reports that.
    """

    def __init__(self, mirror, is_complete):
        self._mirror = mirror
        self._results = mirror._results
        self._max_events = 2 * mirror._max_keys
        self._lock = allocate_lock()
        # The gap and the end of a scan have their classes as keys.
        self._pending = OrderedDict()
        # Number of gaps so far. An event never moves before a gap that it follows.
        self._epoch = 0
        self._is_complete = is_complete
        self._is_ended = self._is_lagging = False
        self._is_ready = mirror._event_class()

    def is_lagging(self):
        """Returns whether the changes have ended because too many events waited."""
        return self._is_lagging

    def _push(self, event):
        results, kind = self._results, type(event)
        with self._lock:
            if self._is_ended:
                return
            pending = self._pending
            if kind is results.Resync:
                # A scan that ended before the gap tells the reader nothing.
                pending.pop(results.Resynced, None)
                if results.Resync not in pending:
                    self._epoch += 1
                    pending[results.Resync] = self._epoch, event
            elif kind in (results.Complete, results.Resynced):
                pending.pop(results.Resynced, None)
                pending[results.Resynced] = self._epoch, event
            else:
                if event.key in pending and pending[event.key][0] != self._epoch:
                    del pending[event.key]
                pending[event.key] = self._epoch, event
            if len(pending) - (results.Resync in pending) - (results.Resynced in pending) > self._max_events:
                pending.clear()
                self._is_lagging = self._is_ended = True
            self._is_ready.set()

    def _end(self):
        with self._lock:
            self._is_ended = True
            self._is_ready.set()

    def _take(self):
        """Returns whether there is an event or the end, and the event; ``None`` at the end."""
        # Before the look: an event after it sets the flag again.
        self._is_ready.clear()
        with self._lock:
            if not self._pending:
                return self._is_ended, None
            key, (_, event) = self._pending.popitem(last=False)
            if key is self._results.Resynced:
                event = self._results.RESYNCED if self._is_complete else self._results.COMPLETE
                self._is_complete = True
            return True, event


def _size(data):
    """Returns the size of a key or value in bytes, of text as UTF-8."""
    if type(data) is bytes or data.isascii():
        return len(data)
    return len(data.encode("utf-8", "surrogatepass"))
