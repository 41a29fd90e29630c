"""A private state store for tests.

With pytest, the fixture `statestore_server` is there as soon as this package is installed:

    def test_greeting(statestore_server):
        with statestore.connect(statestore_server.url) as client:
            assert client.get("greeting") is None

Elsewhere, `Server` is a context manager.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import IO

    from typing_extensions import Self

__all__ = ["Server", "ServerNotFound", "find_server"]

_READY = "listening on tcp://"


class ServerNotFound(RuntimeError):
    """There is no `statestored`."""

    def __init__(self) -> None:
        super().__init__(
            "there is no `statestored`: set STATESTORED to its path, put it on PATH, or `pip install statestore[server]`"
        )


def find_server() -> Path:
    """The program `statestored`: what the environment variable ``STATESTORED`` names, the one that is installed with
    ``statestore[server]``, or the one on ``PATH``.

    Raises `ServerNotFound`.
    """
    named = os.environ.get("STATESTORED")
    if named:
        path = Path(named)
        if not path.is_file():
            raise FileNotFoundError(f"STATESTORED is {named!r}, which is not a file")
        return path
    program = "statestored.exe" if sys.platform == "win32" else "statestored"
    installed = Path(sysconfig.get_path("scripts"), program)
    if installed.is_file():
        return installed
    found = shutil.which("statestored")
    if found is None:
        raise ServerNotFound
    return Path(found)


_running: weakref.WeakSet[Server] = weakref.WeakSet()


def _close_inherited_inputs() -> None:
    """Closes what a forked child inherits of the servers: they end with the process that started them."""
    for server in _running:
        server._close_input()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited_inputs)


class Server:
    """A private `statestored` process on a free loopback port, with an empty store in memory.

    ``options`` are added to its command line; with ``--listen tcp://127.0.0.1:PORT`` it takes the port of an
    earlier server. The server listens when this returns, within ``start_timeout`` seconds; otherwise `RuntimeError`
    is raised. It ends with `stop`, at the end of a ``with`` statement, or at the latest with this process.
    """

    url: str
    """The URL to connect to."""
    host: str
    """The address it listens on."""
    port: int
    """The port it listens on."""

    def __init__(self, *options: str, start_timeout: float = 20.0) -> None:
        given = {option.partition("=")[0] for option in options}
        storage = () if given & {"--data-dir", "--storage"} else ("--storage", "memory")
        listen = () if "--listen" in given else ("--listen", "tcp://127.0.0.1:0")
        log = () if "--log" in given else ("--log", "warn")
        command = [str(find_server()), *listen, *log, "--stop-with-stdin", *storage, *options]
        pipe = subprocess.PIPE
        # The system closes standard input when this process ends, however it ends, and the server ends with it.
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace")
        _running.add(self)
        lines: queue.Queue[str] = queue.Queue()
        self._stderr_lines: collections.deque[str] = collections.deque(maxlen=100)
        assert self._process.stdout is not None and self._process.stderr is not None
        readers = [(self._process.stdout, lines.put), (self._process.stderr, self._keep_line)]
        self._readers = [threading.Thread(target=_read, args=reader, daemon=True) for reader in readers]
        for reader in self._readers:
            reader.start()
        try:
            line = lines.get(timeout=start_timeout)
        except queue.Empty:
            line = ""
        if not line.startswith(_READY):
            self.stop()
            found = f"but {line.strip()!r}" if line else f"and ended with {self._process.returncode}"
            raise RuntimeError(f"`{' '.join(command)}` did not say that it listens, {found}:\n{self.stderr}")
        self.host, _, port = line.strip().removeprefix(_READY).rpartition(":")
        self.port = int(port)
        self.url = f"mqtt://{self.host}:{self.port}"

    def _keep_line(self, line: str) -> None:
        """Keeps what it complains about, and passes it on to our own standard error."""
        self._stderr_lines.append(line)
        # Which may be that of a test that has ended.
        with contextlib.suppress(ValueError, AttributeError):
            sys.stderr.write(line)

    @property
    def stderr(self) -> str:
        """The last hundred lines of its standard error; all of them once it has ended."""
        return "".join(self._stderr_lines)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def kill(self) -> None:
        """Kills the server, as a crash does."""
        self._process.kill()
        self.stop()

    def stop(self) -> None:
        """Stops the server. Stopping again does nothing."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._close_input()
        for reader in self._readers:
            reader.join()

    def _close_input(self) -> None:
        """Closes this process's end of the server's standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "" if self._process.returncode is None else " stopped"
        return f"<Server {self.url}{state}>"


def _read(lines: IO[str], receive: Callable[[str], None]) -> None:
    """Passes each line to ``receive``, and an empty one at the end. The process never blocks on a full pipe."""
    with lines:
        for line in lines:
            receive(line)
    receive("")
