"""The stores that components have behind them, each with its component. A store can crash and come back with what it has on disk."""

import os
import socket
from urllib.error import URLError
from urllib.request import urlopen

from sidecar import PATIENCE, component, free_ports, until


class Statestored:
    """Ours."""

    def __init__(self, processes, *arguments):
        self.processes, self.arguments = processes, arguments
        (self.port,) = free_ports(1)
        if "memory" not in arguments:
            self.arguments += ("--data-dir", str(processes.folder / f"statestored-{self.port}"))
        self.start()

    def start(self):
        words = ["--listen", f"tcp://127.0.0.1:{self.port}", *self.arguments]
        self.process = self.processes.start(os.environ["STATESTORED"], *words)

    def crash(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def component(self, name):
        return component(name, "statestore", url=f"mqtt://127.0.0.1:{self.port}", keyPrefix="none")


class Nothing:
    """A component that does nothing, which has no store."""

    def __init__(self, processes):
        processes.start(os.environ["NOTHING"], str(processes.sockets / "nothing.sock"))

    def component(self, name):
        return component(name, "nothing", keyPrefix="none")


class Redis:
    """redis-server, as it is without a configuration, but for its port and its folder."""

    def __init__(self, processes, *arguments):
        self.processes, self.arguments = processes, arguments
        (self.port,) = free_ports(1)
        self.folder = processes.folder / f"redis-{self.port}"
        self.folder.mkdir()
        self.start()

    def start(self):
        words = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder), *self.arguments]
        self.process = self.processes.start("redis-server", *words, is_ready=self.is_ready)

    def crash(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def ask(self, words):
        """The beginning of the reply to one command."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as stream:
            stream.sendall(words.encode() + b"\r\n")
            return stream.recv(65536).decode()

    def is_ready(self):
        try:
            return self.ask("PING") == "+PONG\r\n"
        except OSError:
            return False

    def component(self, name):
        return component(name, "redis", redisHost=f"127.0.0.1:{self.port}", redisPassword="", keyPrefix="none")


class RedisWithReplica:
    """A redis-server and a replica, which is there when daprd begins."""

    def __init__(self, processes):
        self.primary = Redis(processes)
        self.replica = Redis(processes, "--replicaof", "127.0.0.1", str(self.primary.port))
        assert until(self.is_together, self.replica.process)

    def is_together(self):
        """Whether the component will find the replica when it begins."""
        return "state=online" in self.primary.ask("INFO replication")

    def start(self):
        self.primary.start()
        self.replica.start()

    def crash(self):
        self.primary.crash()
        self.replica.crash()

    def component(self, name):
        return self.primary.component(name)


class Etcd:
    """One etcd, as it is without a configuration, but for its ports and its folder."""

    def __init__(self, processes):
        self.processes = processes
        self.clients, self.peers = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        self.folder = processes.folder / f"etcd-{self.clients[-5:]}"
        self.start()

    def start(self):
        words = ["--data-dir", str(self.folder), "--listen-client-urls", self.clients, "--advertise-client-urls", self.clients]
        words += ["--listen-peer-urls", self.peers, "--initial-advertise-peer-urls", self.peers]
        words += ["--initial-cluster", f"default={self.peers}"]
        self.process = self.processes.start("etcd", *words, is_ready=self.is_ready)

    def crash(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def is_ready(self):
        try:
            return b'"true"' in urlopen(f"{self.clients}/health", timeout=PATIENCE).read()
        except (URLError, ConnectionError):
            return False

    def component(self, name):
        return component(name, "etcd", "v2", endpoints=self.clients.removeprefix("http://"), keyPrefix="none")
