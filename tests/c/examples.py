"""Runs the examples against a server of their own: `examples.py FOLDER`. STATESTORED_BIN names the server."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

folder = pathlib.Path(sys.argv[1])
PATIENCE = 100  # seconds


class Server:
    """A server at one address, which can be stopped and started again, empty."""

    def __init__(self, address):
        self.address = address
        self.start()

    def start(self):
        command = [os.environ["STATESTORED_BIN"], "--listen", self.address, "--storage", "memory"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip().removeprefix("listening on ").replace("tcp://", "mqtt://")

    def end(self):
        self.process.kill()
        self.process.wait()


class Example:
    """An example that runs in a process of its own."""

    def __init__(self, server, name, *arguments, given=""):
        self.name = name
        self.process = subprocess.Popen(
            [folder / f"example_{name}", *arguments],
            env={**os.environ, "STATESTORE_URL": server.url},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.process.stdin.write(given)
        self.process.stdin.close()
        self.watchdog = threading.Timer(PATIENCE, self.process.kill)
        self.watchdog.daemon = True
        self.watchdog.start()

    def expect(self, *lines):
        """Reads the next lines."""
        found = [self.process.stdout.readline().rstrip("\n") for _ in lines]
        assert found == list(lines), (self.name, found, self.process.poll())

    def complains(self, text):
        """Reads its standard error until a line contains this text."""
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError((self.name, text, self.process.poll()))

    def prints(self, text):
        """Reads its output until a line is this text."""
        for line in self.process.stdout:
            if line == f"{text}\n":
                return
        raise AssertionError((self.name, text, self.process.poll()))

    def end(self):
        """Waits for the end: its exit code, the rest of its output, and its standard error."""
        printed, complained = self.process.stdout.read(), self.process.stderr.read()
        code = self.process.wait()
        self.watchdog.cancel()
        return code, printed, complained

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def succeeds(self, printed, *, interrupted=False):
        found = self.interrupt() if interrupted else self.end()
        assert found == (0, printed, ""), (self.name, found, printed)


def cache(server, language):
    plates = f"{language}: Contoso 400\n" * 3
    Example(server, f"cache_{language}", language).succeeds(f"reading the plate of {language}\n{plates}")
    Example(server, f"cache_{language}", language).succeeds(plates)


def line_settings(language):
    name = f"line_settings_{language}"
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(f"unix://{scratch}/socket")
        try:
            # The first state is complete, with defaults for the settings that are not set, before the line runs.
            Example(server, name, "speed", "90").succeeds("")
            line = Example(server, name)
            line.expect("the line runs with pressure 5, speed 90")
            Example(server, name, "speed", "fast").succeeds("")
            line.complains('line-1/settings/speed is "fast", which is no number')
            Example(server, name, "colour", "red").succeeds("")
            Example(server, name, "pressure", "7").succeeds("")
            line.expect("the line runs with pressure 7, speed 90")
            # The server forgets the settings.
            server.end()
            server.start()
            line.expect("the line runs with pressure 5, speed 60")
            Example(server, name, "speed", "120").succeeds("")
            line.expect("the line runs with pressure 5, speed 120")
            line.succeeds("", interrupted=True)
        finally:
            server.end()


def machine_lock(server, language):
    name = f"machine_lock_{language}"
    first = Example(server, name, "1000000")
    first.expect("waiting for the press")
    token = first.process.stdout.readline().removeprefix("stroke 1 with the token ").strip()
    second, third = Example(server, name, "1"), Example(server, name)
    second.expect("waiting for the press")
    third.expect("waiting for the press")
    third.succeeds("", interrupted=True)
    first.expect(f"stroke 2 with the token {token}")
    code, printed, complained = first.interrupt()
    assert code == 0 and printed.endswith("the press stands still\n"), (code, printed, complained)
    code, printed, complained = second.end()
    stroke, still = printed.splitlines()
    assert (code, still, complained) == (0, "the press stands still", ""), (code, printed, complained)
    assert stroke.startswith("stroke 1 with the token ") and stroke > f"stroke 1 with the token {token}", (stroke, token)


def lost_lock(server, language):
    """A server that stops for longer than the lock lasts."""
    example = Example(server, f"machine_lock_{language}", "1000000")
    example.expect("waiting for the press")
    example.process.stdout.readline()
    server.process.send_signal(signal.SIGSTOP)
    try:
        code, printed, complained = example.end()
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert code == 1 and printed.endswith("the press stands still\n"), (code, printed, complained)
    assert complained.startswith("LockLost: "), complained


def active_standby(server, language):
    name = f"active_standby_{language}"
    first = Example(server, name, "gateway-a")
    first.expect("gateway-a stands by", "gateway-a is active")
    second, third = Example(server, name, "gateway-b", "2"), Example(server, name, "gateway-c")
    second.expect("gateway-b stands by")
    third.expect("gateway-c stands by")
    third.succeeds("", interrupted=True)
    first.succeeds("", interrupted=True)
    second.succeeds("gateway-b is active\n")


def lost_lead(server, language):
    example = Example(server, f"active_standby_{language}", "gateway-a")
    example.expect("gateway-a stands by", "gateway-a is active")
    server.process.send_signal(signal.SIGSTOP)
    try:
        example.complains("gateway-a is not active: ")
    finally:
        server.process.send_signal(signal.SIGCONT)
    example.expect("gateway-a stands by", "gateway-a is active")
    code, printed, _ = example.interrupt()
    assert (code, printed) == (0, ""), (code, printed)


def presence(server, language):
    name = f"presence_{language}"
    early = Example(server, name)
    early.expect("gateways present: 0")
    first = Example(server, name, "gateway-a")
    one = f"gateway-a is present: process {first.process.pid}"
    early.expect(one)
    second = Example(server, name, "gateway-b")
    two = f"gateway-b is present: process {second.process.pid}"
    early.expect(two)
    late = Example(server, name)
    found = sorted(late.process.stdout.readline().rstrip("\n") for _ in range(2))
    assert found == [one, two], found
    late.expect("gateways present: 2")
    # Renewals print nothing. The key of a gateway that ends disappears at once; that of a gateway that dies expires.
    first.expect(*["gateway-a is announced"] * 3)
    assert first.interrupt()[0] == 0
    second.process.kill()
    second.end()
    for watcher in (early, late):
        watcher.expect("gateway-a is gone", "gateway-b is gone")
        watcher.succeeds("", interrupted=True)


def frozen_presence(server, language):
    """A server that stops for longer than the key of a gateway lasts."""
    name = f"presence_{language}"
    gateway = Example(server, name, "gateway-c")
    gateway.expect("gateway-c is announced")
    server.process.send_signal(signal.SIGSTOP)
    try:
        gateway.complains("gateway-c was not announced: ")
    finally:
        server.process.send_signal(signal.SIGCONT)
    watcher = Example(server, name)
    watcher.prints(f"gateway-c is present: process {gateway.process.pid}")
    assert gateway.interrupt()[0] == 0
    watcher.prints("gateway-c is gone")
    watcher.succeeds("", interrupted=True)


server = Server("tcp://127.0.0.1:0")
try:
    for language in ("c", "cpp"):
        cache(server, language)
        line_settings(language)
        machine_lock(server, language)
        lost_lock(server, language)
        active_standby(server, language)
        lost_lead(server, language)
        presence(server, language)
        frozen_presence(server, language)
    for name, given, printed in (
        ("epoll_c", "a\nb\n", "set to a\nset to b\n"),
        ("libuv_c", "", "set to 1\nset to 2\nset to 3\n"),
        ("asio_cpp", "", "set to 1\nset to 2\nset to 3\n"),
    ):
        Example(server, name, f"loop/{name}", server.url, given=given).succeeds(printed)
finally:
    server.end()
