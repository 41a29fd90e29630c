"""What the native library logs, in `logging`."""

from __future__ import annotations

import logging
import os
import threading

from statestore import _native

LOGGER = "statestore"

_lock = threading.Lock()
_forwarded: tuple[int, int] | None = None


def forward() -> None:
    """Forwards what the logger takes now: its level counts when a client is connected."""
    global _forwarded
    wanted = (os.getpid(), logging.getLogger(LOGGER).getEffectiveLevel())
    with _lock:
        if wanted != _forwarded:
            _native.forward_log(min(wanted[1], logging.ERROR), _log)
            _forwarded = wanted


def _log(level: int, module: str, message: str) -> None:
    name = module.replace("statestore_", "statestore::", 1).replace("::", ".")
    logging.getLogger(name).log(level, "%s", message)


def _forget_lock() -> None:
    """In a forked child: another thread may have held it."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
