"""Where the servers of tests keep their entries: TESTED_STORAGE is ``memory`` (if it is not set), ``durable``, ``etcd`` or ``redis``.

As a program: ``engine.py STORAGE COMMAND…`` runs a command with that in its environment, and in TESTED_ADDRESS where such an engine listens
meanwhile.
"""

import base64
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

STORAGE = os.environ.get("TESTED_STORAGE", "memory")
DIFFERENCES = json.loads((Path(__file__).parent.parent / "vectors" / "storages.json").read_text())["differences"]
HANG_TIMEOUT = 60  # seconds
_numbers = itertools.count()


def free_port():
    # Engines do not say which port they took.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class _Engine:
    """A process with a folder of its own, on free ports."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.folder = tempfile.mkdtemp(prefix=f"{self.name}-")
        for _ in range(10):
            self.port = free_port()
            if self._starts():
                return
        raise RuntimeError(f"{self.name} does not start: is it installed (Debian: {self.package})?")

    def _starts(self):
        self.spawn()
        return self.listens()

    def spawn(self):
        """Starts the process."""
        self.process = subprocess.Popen(
            [*self.command(), *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def listens(self):
        """Waits until it listens; False if the process ends."""
        end = time.monotonic() + HANG_TIMEOUT
        while self.process.poll() is None:
            if _listens(self.port):
                return True
            assert time.monotonic() < end, f"{self.name} does not listen"
            time.sleep(0.02)  # it does not say when it does
        return False

    def kill(self):
        """Kills the process; its folder stays."""
        self.process.kill()
        self.process.wait()

    def restart(self):
        """Starts it again at the same port and folder."""
        assert self._starts(), f"{self.name} does not start again"

    def end(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Etcd(_Engine):
    name, package = "etcd", "etcd-server"

    def command(self):
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{free_port()}"
        return [
            "etcd",
            f"--data-dir={self.folder}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ]

    def storage(self, prefix):
        return f"etcd://127.0.0.1:{self.port}/{prefix}"

    def ask(self, what, **words):
        """By etcd's own hand, through its gateway for JSON."""
        words = {name: base64.b64encode(value).decode() for name, value in words.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v3/{what}", json.dumps(words).encode())
        with urllib.request.urlopen(request, timeout=HANG_TIMEOUT) as answer:
            return json.load(answer)

    def write_foreign(self, prefix):
        self.ask("kv/put", key=f"{prefix}/m".encode(), value=b"something else")

    def write_newer(self, prefix):
        self.ask("kv/put", key=f"{prefix}/m".encode(), value=b"libstatestore 9")

    # Filled by some values.
    small = ("--quota-backend-bytes=4194304",)


class Redis(_Engine):
    name, package = "redis-server", "redis-server"

    def command(self):
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.folder]
        return ["redis-server", *place, "--appendonly", "yes", "--save", ""]

    def storage(self, prefix):
        return f"redis://127.0.0.1:{self.port}?prefix={prefix}"

    def ask(self, *words):
        """By Redis's own hand."""
        with socket.create_connection(("127.0.0.1", self.port), HANG_TIMEOUT) as connection:
            line = b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
            connection.sendall(b"*%d\r\n%s" % (len(words), line))
            return connection.recv(4096)

    def write_foreign(self, prefix):
        assert self.ask("SET", f"{{{prefix}}}:manifest", "something else") == b"+OK\r\n"

    def write_newer(self, prefix):
        assert self.ask("HSET", f"{{{prefix}}}:manifest", "format", "libstatestore 9") == b":1\r\n"

    # Filled by some values.
    small = ("--maxmemory", "6mb")


class _Folders:
    """One for the data of each server."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="durable-")

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def storage(self, name):
        return str(Path(self.folder) / name)


_ENGINES = {"durable": _Folders, "etcd": Etcd, "redis": Redis}
_engine = None


def alone(is_small=False):
    """An engine of its own, to be ended, which may have little room."""
    kind = _ENGINES[STORAGE]
    return kind(*(kind.small if is_small else ()))


def difference(name):
    """What tests/vectors/storages.json says of this storage."""
    [found] = [it for it in DIFFERENCES if it["name"] == name]
    return found[STORAGE]


def options():
    """The options of a server with a store of its own."""
    global _engine
    if STORAGE == "memory":
        return ("--storage", "memory")
    if _engine is None:
        _engine = _ENGINES[STORAGE]()
    option = "--data-dir" if STORAGE == "durable" else "--storage"
    return (option, _engine.storage(f"test{next(_numbers)}"))


def end():
    """Ends what was started for the tests."""
    global _engine
    if _engine is not None:
        _engine.end()
        _engine = None


def main(storage, *command):
    environment = {**os.environ, "TESTED_STORAGE": storage}
    engine = _ENGINES[storage]() if storage in ("etcd", "redis") else None
    try:
        if engine is not None:
            environment["TESTED_ADDRESS"] = f"127.0.0.1:{engine.port}"
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        if engine is not None:
            engine.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
