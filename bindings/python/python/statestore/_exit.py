"""Open clients at the end of the interpreter."""

from __future__ import annotations

import atexit
import time
import weakref
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from statestore import _native

PATIENCE = 2.0
"""Seconds that callbacks have to return, and again that many to end by an exception."""

_open: weakref.WeakSet[_native.Client] = weakref.WeakSet()


def remember(client: _native.Client) -> None:
    """Has the client closed when the interpreter ends."""
    _open.add(client)


def _close_all() -> None:
    """Closes all clients, so that no thread of theirs needs an interpreter that is gone."""
    from statestore import _native

    left = _close_until(list(_open), time.monotonic() + PATIENCE)
    _native.end_callbacks()
    deadline = time.monotonic() + PATIENCE
    while left and time.monotonic() < deadline:
        for client in left:
            _interrupt(client._callback_thread())
        left = _close_until(left, time.monotonic() + 0.1)
    _native.stop_log()


def _close_until(clients: list[_native.Client], deadline: float) -> list[_native.Client]:
    """Those that could not be closed, because a callback runs on."""
    return [client for client in clients if not client._close_within(max(0.0, deadline - time.monotonic()))]


def _interrupt(thread: int | None) -> None:
    """Raises `SystemExit` in a callback that does not return."""
    if thread is None or thread == get_ident():
        return
    try:
        import ctypes
    except ImportError:
        pass
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))


atexit.register(_close_all)
