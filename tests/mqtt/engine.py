"""Where the servers of these tests keep their entries: TESTED_STORAGE is ``memory`` (if it is not set) or ``etcd``."""

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import time

STORAGE = os.environ.get("TESTED_STORAGE", "memory")
IS_SHARED = STORAGE != "memory"
GUARD = 60  # seconds
_numbers = itertools.count()


def _free_port():
    # etcd does not say which port it took.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Etcd:
    """An etcd of its own, on free ports."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="etcd-")
        for _ in range(10):
            self.port = _free_port()
            if self._starts(f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{_free_port()}"):
                return
        raise RuntimeError("etcd does not start: is it installed (Debian: etcd-server)?")

    def _starts(self, client, peer):
        self.process = subprocess.Popen(
            [
                "etcd",
                f"--data-dir={self.folder}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + GUARD
        while self.process.poll() is None:
            if _listens(self.port):
                return True
            assert time.monotonic() < end, "etcd does not listen"
            time.sleep(0.02)  # it does not say when it does
        return False

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


_etcd = None


def options():
    """The options of a server with a store of its own."""
    global _etcd
    if not IS_SHARED:
        return ("--storage", "memory")
    if _etcd is None:
        _etcd = Etcd()
    return ("--storage", f"etcd://127.0.0.1:{_etcd.port}/test{next(_numbers)}")


def end():
    """Ends what was started for the tests."""
    global _etcd
    if _etcd is not None:
        _etcd.end()
        _etcd = None
