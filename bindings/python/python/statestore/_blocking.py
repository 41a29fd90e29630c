"""The blocking face: calls wait on their thread, without the interpreter lock."""

import sys
from _thread import get_ident as _get_ident
from types import GenericAlias

from statestore import _exit, _log, _native
from statestore._errors import StateStoreError, WrongThreadError
from statestore._mirror import MAX_BYTES, MirrorBase, MirrorChangesBase, check_max_bytes, seconds


def _destructor(end, count=sys.getrefcount):
    """A destructor that calls ``end`` with the object and the number of references to it.

    It keeps what it needs: while the interpreter ends, modules lose their contents. So do the functions below, in their arguments.
    """

    def __del__(self):
        end(self, count(self))

    return __del__


class _Probe:
    """Measures the references to an object in its destructor if there are no others."""

    __del__ = _destructor(lambda _, references: setattr(_Probe, "references", references))


_Probe()


def _client_destructor(client, references, least=_Probe.references, drop=_native.drop_callbacks, is_finalizing=sys.is_finalizing):
    if references > least:
        # Garbage refers to it, such as what its callbacks belong to.
        drop(client)
    if not is_finalizing() and not client._is_closed():
        import warnings

        warnings.warn(f"unclosed {client!r}", ResourceWarning, stacklevel=3, source=client)


def _guard_destructor(guard, _, is_finalizing=sys.is_finalizing):
    if not is_finalizing() and guard._is_dropped_held():
        import warnings

        message = f"{guard!r} is dropped while the lock is held, which is given back in the background; use `with`, or release it"
        warnings.warn(message, ResourceWarning, stacklevel=3, source=guard)


class _Generic:
    """`Client[str]` in annotations."""

    __slots__ = ()
    __class_getitem__ = classmethod(GenericAlias)


class Client(_Generic, _native.Client):
    __doc__ = _native.Client.__doc__

    # Set by `connect`: host and port of the broker, or its socket.
    _address = ""

    def with_lock(self, name, work, **options):
        """Takes the lock, calls ``work`` with its guard, releases the lock, and returns the result of ``work``.

        The options are those of `lock`. If ``work`` raises something, that is raised. If the lock was lost meanwhile,
        `LockLostError` is raised, although ``work`` returned: it may have been done without the lock.

        >>> client.with_lock("pump/owner", lambda guard: guard.set("pump/state", "running").applied)
        True
        """
        with self.lock(name, **options) as guard:
            return work(guard)

    def mirror(self, pattern, *, refresh=10.0, max_keys=1_000_000, max_bytes=MAX_BYTES, timeout=None):
        """Mirrors all entries whose keys match a pattern: a `Mirror`. It is empty at first; `Mirror.synced` waits until it has all entries.

        It follows the store as `observe_matching` does, also on stores without that capability. Reads send no request. While the
        connection is lost they return the last known state, and `Mirror.stale_since` returns since when. If more than ``max_keys`` keys
        match, or keys and values have more than ``max_bytes`` bytes, the mirror ends with `TooLargeError`. A key or value that is not
        text of the client's ``encoding`` ends it with `UnicodeDecodeError`.

        With the blocking client, the events arrive on the thread that calls your callbacks, so a long callback delays them.

        >>> _ = client.set("line/1", "fast")
        >>> with client.mirror("line/*") as lines:
        ...     lines.synced()
        ...     lines.get("line/1").value
        b'fast'
        """
        # The import takes long.
        from threading import Event

        check_max_bytes(max_bytes)
        mirror = Mirror(self, max_keys, max_bytes, Event)
        return mirror._start(self._mirror(pattern, mirror._on_event, refresh, max_keys, timeout))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    __del__ = _destructor(_client_destructor)


class Observer(_Generic, _native.Observer):
    __doc__ = _native.Observer.__doc__

    def __iter__(self):
        return self

    def __next__(self):
        item = self.next()
        if item is None:
            raise self.error() or StopIteration
        return item

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _wait(mirror, event, timeout):
    """Waits for an event of a mirror."""
    if mirror._client._callback_thread() == _get_ident():
        raise WrongThreadError("waiting for a mirror: no event arrives while a callback of its client waits", "not_done", False)
    if not event.wait(seconds(timeout)):
        raise mirror._timed_out(timeout)


class Mirror(_Generic, MirrorBase):
    __doc__ = MirrorBase.__doc__

    _close_observer = staticmethod(Observer.close)

    def synced(self, *, timeout=None):
        """Waits until the mirror has the state of the store: all entries at first, and all differences after a gap.

        Raises the error that ended the mirror, `ClosedError` after a close, and `TimedOutError` after ``timeout``.
        """
        self._check_process()
        _wait(self, self._is_settled, timeout)
        self._check_end()

    def close(self):
        """Ends the mirror: waiting calls return. The entries remain."""
        self._check_process()
        self._end(None, "closed")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class MirrorChanges(_Generic, MirrorChangesBase):
    __doc__ = MirrorChangesBase.__doc__

    def next(self, *, timeout=None):
        """Returns the next event: a `MatchObservation`; ``None`` after the last one.

        If nothing happens for ``timeout``, this raises `TimedOutError`, and nothing is missed.
        """
        self._mirror._check_process()
        while True:
            is_found, event = self._take()
            if is_found:
                return event
            _wait(self._mirror, self._is_ready, timeout)

    def __iter__(self):
        return self

    def __next__(self):
        event = self.next()
        if event is None:
            raise StopIteration
        return event


Mirror._changes_class = MirrorChanges


class Scan(_Generic, _native.Scan):
    __doc__ = _native.Scan.__doc__

    _items = iter(())

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            for item in self._items:
                return item
            page = self.next_page()
            if page is None:
                raise StopIteration
            self._items = iter(page)


class Pipeline(_Generic, _native.Pipeline):
    __doc__ = _native.Pipeline.__doc__

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        _drop_requests(self, kind)


def _drop_requests(pipeline, kind):
    """Ends the block of a pipeline. Requests without an `execute` are dropped."""
    count = pipeline._clear()
    if count and kind is None:
        import warnings

        warnings.warn(f"{count} requests of a pipeline were not executed; call execute() in the block", RuntimeWarning, stacklevel=3)


class Transaction(_Generic, _native.Transaction):
    __doc__ = _native.Transaction.__doc__


class Lease(_Generic, _native.Lease):
    __doc__ = _native.Lease.__doc__


class Guard(_Generic, _native.Guard):
    __doc__ = _native.Guard.__doc__

    def __bool__(self):
        """Returns true, unlike `Held`."""
        return True

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        with _suppress_after_error(kind):
            self._finish(kind is not None)

    __del__ = _destructor(_guard_destructor)


class Election(_Generic, _native.Election):
    __doc__ = _native.Election.__doc__


class Leadership(_Generic, _native.Leadership):
    __doc__ = _native.Leadership.__doc__

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        with _suppress_after_error(kind):
            self._finish(kind is not None)

    __del__ = _destructor(_guard_destructor)


def connect(*args, **kwargs):
    """Connects to a broker, and waits until it has accepted that.

    ``url`` is ``mqtt://[user[:password]@]host[:port]``, ``mqtts://…``, ``ws://…``, ``wss://…`` or ``unix:///path``, with
    parameters behind a ``?``; ``env=True`` reads the environment variables of a pod instead. The other arguments replace what these say. Times are
    seconds or `datetime.timedelta`. With an ``encoding``, keys and values come out as ``str`` instead of ``bytes``.
    With ``lazy=True``, this returns at once, the client connects in the background, and calls wait for the connection.
    """
    settings = _settings(args, kwargs)
    client = Client(settings, sys.modules[__name__], asyncio=False)
    client._address = settings.address
    _log.forward()
    try:
        client._connect()
    except BaseException:
        _native.close_each([client], 0.0)
        raise
    _exit.remember(client)
    return client


# Where `inspect.signature` finds the arguments.
connect.__wrapped__ = _native.Settings


def _settings(args, kwargs):
    """The settings of `connect`; errors about its arguments bear its name."""
    try:
        settings = _native.Settings(*args, **kwargs)
    except TypeError as error:
        raise (_argument_error(args, kwargs) or error) from None
    # What calls return, so that the first one need not wait for it.
    import statestore._results
    import statestore._state  # noqa: F401

    return settings


def _argument_error(args, kwargs):
    """Returns the problem of the arguments of `connect`, if they have an unknown name."""
    import difflib
    import inspect

    signature = inspect.signature(connect)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = next((name for name in kwargs if name not in signature.parameters), "")
        if hint := _FOREIGN_SETTINGS.get(unknown):
            return TypeError(f"connect() {error}; {hint}")
        near = difflib.get_close_matches(unknown, signature.parameters, 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return TypeError(f"connect() {error}{hint}")
    return None


# Settings that other libraries have, and what replaces them.
_FOREIGN_SETTINGS = {
    **dict.fromkeys(("host", "hostname", "port"), "host and port are in the URL: connect('mqtt://HOST:1883')"),
    **dict.fromkeys(("unix_socket_path", "socket_path"), "the path is in the URL: connect('unix:///PATH')"),
    **dict.fromkeys(("ssl", "use_ssl"), "the URL tells: connect('mqtts://HOST')"),
    "decode_responses": "pass encoding='utf-8' for str instead of bytes",
    "socket_timeout": "pass request_timeout=… in seconds",
    "socket_connect_timeout": "pass connect_timeout=… in seconds",
}


class _suppress_after_error:
    """Drops an error of the store if the body of a ``with`` statement had one already, which wins."""

    def __init__(self, kind):
        self.is_quiet = kind is not None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        return self.is_quiet and kind is not None and issubclass(kind, StateStoreError)
