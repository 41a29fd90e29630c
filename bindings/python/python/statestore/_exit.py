"""Open clients at the end of the interpreter."""

from __future__ import annotations

import atexit
import weakref
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from statestore import _native

CALLBACK_TIMEOUT = 2.0
"""Seconds that callbacks have to return, and again that many to end by an exception."""

# How often a callback is interrupted in that time.
_INTERRUPT_ATTEMPTS = 20

_open: weakref.WeakSet[_native.Client] = weakref.WeakSet()


def remember(client: _native.Client) -> None:
    """Has the client closed when the interpreter ends."""
    _open.add(client)


def _close_all() -> None:
    """Closes all clients, so that no thread of theirs needs an interpreter that is gone."""
    from statestore import _native

    # The native half measures the time: a test may have frozen the clocks of Python.
    left = _native.close_each(list(_open), CALLBACK_TIMEOUT)
    _native.end_callbacks()
    for _ in range(_INTERRUPT_ATTEMPTS):
        if not left:
            break
        for client in left:
            _interrupt(client._callback_thread())
        left = _native.close_each(left, CALLBACK_TIMEOUT / _INTERRUPT_ATTEMPTS)
    _native.stop_log()


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
