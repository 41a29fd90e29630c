"""A statestored process on a free loopback port."""

import os
import queue
import signal
import subprocess
import threading

import engine

GUARD = 20  # seconds; no healthy step comes near it, so that a hang becomes a failure
READY = "listening on tcp://127.0.0.1:"


def binary():
    try:
        return os.environ["STATESTORED_BIN"]
    except KeyError:
        raise RuntimeError("set STATESTORED_BIN to the path of the statestored binary") from None


class Server:
    """Starts the process and waits until it listens; ``port`` is where."""

    def __init__(self, *options):
        if not {"--data-dir", "--storage"}.intersection(options):
            options = (*engine.options(), *options)
        self.process = subprocess.Popen(
            [binary(), "--listen", "tcp://127.0.0.1:0", "--log", "warn", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._reader.start()
        line = lines.get(timeout=GUARD)
        assert line and line.startswith(READY), f"not a ready line: {line!r}"
        self.port = int(line.removeprefix(READY))

    def _read(self, lines):
        # To the end, so that the server can never block on a full pipe.
        for line in self.process.stdout:
            lines.put(line)
        lines.put(None)

    def end(self, how=signal.SIGTERM):
        """Sends the signal and returns the exit code."""
        self.process.send_signal(how)
        return self.process.wait(GUARD)

    def kill(self):
        """Ends it for good, whatever state it is in."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
