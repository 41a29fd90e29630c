"""A statestored process on a free loopback port."""

import functools
import os
import queue
import signal
import subprocess
import threading

import broker
import engine

HANG_TIMEOUT = 20  # seconds; no healthy step comes near it, so that a hang becomes a failure
READY = "listening on tcp://127.0.0.1:"


def binary():
    try:
        return os.environ["STATESTORED_BIN"]
    except KeyError:
        raise RuntimeError("set STATESTORED_BIN to the path of the statestored binary") from None


@functools.cache
def lacks(kind):
    """Whether the program was built without an engine, "etcd" or "redis"."""
    checked = subprocess.run(
        [binary(), "--check", "--storage", f"{kind}://127.0.0.1:1"], capture_output=True, text=True, timeout=HANG_TIMEOUT, check=False
    )
    return "was built without" in checked.stderr


class Server:
    """Starts the process and waits until it listens, or is attached to a broker; ``port`` is where clients find it."""

    broker = None

    def __init__(self, *options):
        if not {"--data-dir", "--storage"}.intersection(options):
            options = (*engine.options(), *options)
        if broker.IS_BETWEEN:
            self.broker = broker.start()
            self.port = self.broker.port
            ways, log = ["--attach", f"mqtt://127.0.0.1:{self.port}", "--log", "info"], subprocess.STDOUT
        else:
            ways, log = ["--listen", "tcp://127.0.0.1:0", "--log", "warn"], None
        self.process = subprocess.Popen(
            [binary(), *ways, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(lines,), daemon=True)
        self._reader.start()
        line = lines.get(timeout=HANG_TIMEOUT)
        if self.broker:
            while " attached to the broker" not in (line or ""):
                assert line, "it ended"
                line = lines.get(timeout=HANG_TIMEOUT)
            return
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
        return self.process.wait(HANG_TIMEOUT)

    def kill(self):
        """Ends it for good, whatever state it is in."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        if self.broker:
            self.broker.kill()
