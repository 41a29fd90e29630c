"""Runs the examples against a server of their own: `examples.py FOLDER`. STATESTORED_BIN names the server."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

folder = pathlib.Path(sys.argv[1])


def run(name, *arguments, given=""):
    done = subprocess.run([folder / name, *arguments], input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (name, done)
    return done.stdout


def waits_for(path, *lines):
    """Waits until a file has these lines, whatever their order."""
    deadline = time.monotonic() + 60
    while True:
        found = sorted(path.read_text().splitlines())
        if found == sorted(lines):
            return
        assert time.monotonic() < deadline, (found, lines)
        time.sleep(0.01)


def gateway(language, url, path):
    set_key = lambda key, *values: run("example_observe_c", key, url, given="".join(f"{value}\n" for value in values))
    set_key(f"mirror-{language}/one", 1)
    running = subprocess.Popen([folder / f"example_gateway_{language}", f"mirror-{language}/", path, url], stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout.readline().startswith("mirroring")
        waits_for(path, f"mirror-{language}/one=1")
        set_key(f"mirror-{language}/one", 2, 3)
        set_key(f"mirror-{language}/two", "new")
        waits_for(path, f"mirror-{language}/one=3", f"mirror-{language}/two=new")
        set_key(f"mirror-{language}/two", "newer")
        waits_for(path, f"mirror-{language}/one=3", f"mirror-{language}/two=newer")
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.wait()


class Server:
    """A server at one address, which can be stopped and started again, empty."""

    def __init__(self, address):
        self.address = address
        self.start()

    def start(self):
        command = [os.environ["STATESTORED_BIN"], "--listen", self.address, "--storage", "memory"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.listening = self.process.stdout.readline().strip().removeprefix("listening on ")

    def end(self):
        self.process.kill()
        self.process.wait()


def reports(gateway, text):
    """Reads what a gateway reports until a line contains this text."""
    for line in gateway.stderr:
        if text in line:
            return
    raise AssertionError((text, gateway.wait(60)))


def outage(scratch):
    """Gateways that a frozen server and a restarted one do not end."""
    server = Server(f"unix://{scratch}/outage.socket")
    url, languages, gateways = server.listening, ("c", "cpp"), {}
    set_key = lambda value: run("example_observe_c", "outage/key", url, given=f"{value}\n")
    try:
        set_key("before")
        for language in languages:
            command = [folder / f"example_gateway_{language}", "outage/", scratch / f"outage-{language}", url]
            gateways[language] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert gateways[language].stdout.readline().startswith("mirroring")
            waits_for(scratch / f"outage-{language}", "outage/key=before")
        server.process.send_signal(signal.SIGSTOP)
        for gateway in gateways.values():
            reports(gateway, "TimedOut: ")
        server.process.send_signal(signal.SIGCONT)
        set_key("afterwards")
        for language in languages:
            waits_for(scratch / f"outage-{language}", "outage/key=afterwards")
        server.end()
        server.start()
        set_key("restarted")
        for language, gateway in gateways.items():
            waits_for(scratch / f"outage-{language}", "outage/key=restarted")
            gateway.send_signal(signal.SIGTERM)
            assert gateway.wait(60) == 0, gateway.stderr.read()
    finally:
        for gateway in gateways.values():
            gateway.kill()
            gateway.wait()
        server.end()


server = Server("tcp://127.0.0.1:0")
try:
    url = server.listening.replace("tcp://", "mqtt://")
    with tempfile.TemporaryDirectory() as scratch:
        for language in ("c", "cpp"):
            assert run(f"example_basic_{language}", url) == "greeting is hello\ngreeting became hello\n"
            assert run(f"example_observe_{language}", f"{language}/key", url, given="a\nb\n") == "set to a\nset to b\n"
            held, released = run(f"example_lock_{language}", f"{language}/door", url).splitlines()
            assert held.startswith(f"{language}/door is held with the token 00") and released == "released"
            gateway(language, url, pathlib.Path(scratch) / language)
        outage(pathlib.Path(scratch))
    assert run("example_loop_epoll_c", "loop/epoll", url, given="a\nb\n") == "set to a\nset to b\n"
    assert run("example_loop_libuv_c", "loop/libuv", url) == "set to 1\nset to 2\nset to 3\n"
    assert run("example_loop_asio_cpp", "loop/asio", url) == "set to 1\nset to 2\nset to 3\n"
finally:
    server.end()
