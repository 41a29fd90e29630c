"""The log of the native library, in `logging`."""

from __future__ import annotations

import os
from _thread import allocate_lock

from statestore import _native

LOGGER = "statestore"

_lock = allocate_lock()
_forwarded: tuple[int, int] | None = None


def forward() -> None:
    """Forwards what the logger takes now: its level counts when a client is connected."""
    global _forwarded
    # Not before the first client: until then nothing is logged, and importing it takes time.
    import logging

    logger = logging.getLogger(LOGGER)
    wanted = (os.getpid(), logger.getEffectiveLevel())
    with _lock:
        if _forwarded is None:
            # Without it, a program that has set up no logging would find warnings of the library in its standard error.
            logger.addHandler(logging.NullHandler())
        if wanted != _forwarded:
            _native.forward_log(min(wanted[1], logging.ERROR), _log)
            _forwarded = wanted


_THREAD = "statestore"
"""The name of the thread that connects clients."""


def _log(level: int, module: str, message: str, file: str, line: int) -> None:
    import logging

    name = module.replace("statestore_", "statestore::", 1).replace("::", ".")
    logger = logging.getLogger(name)
    if not logger.isEnabledFor(level):
        return
    # As the place in the library has it, not this one and the thread that calls it.
    record = logger.makeRecord(name, level, file, line, message, (), None, func=name.rpartition(".")[2])
    record.threadName = _THREAD
    logger.handle(record)


def _forget_lock() -> None:
    """In a forked child: another thread may have held it."""
    global _lock
    _lock = allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
