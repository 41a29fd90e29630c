"""A statestored process whose options come from flags, variables or a file."""

import base64
import http.client
import json
import os
import re
import resource
import signal
import socket
import ssl
import struct
import subprocess
import time

import wire
from peer import Peer
from server import HANG_TIMEOUT, binary
from store import Store

WAYS = ("flag", "variable", "file")
# Seconds; far more than any step takes.
LONG = 30


def until(what, is_so):
    """Waits until ``is_so()``; fails with ``what``."""
    end = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.02)


def given(way, options, folder):
    """Returns arguments and environment for these options; a value is a number, a text, a list of texts, or True."""
    arguments, environment, lines = [], {}, []
    for name, value in options.items():
        values = value if isinstance(value, list) else [value]
        if way == "flag":
            arguments += [f"--{name}" if value is True else f"--{name}={it}" for it in values]
        elif way == "variable":
            text = "true" if value is True else ",".join(map(str, values))
            environment["STATESTORED_" + name.replace("-", "_").upper()] = text
        else:
            value = value if isinstance(value, (bool, int, list)) else str(value)
            lines.append(f"{name} = {json.dumps(value)}\n")
    if way == "file":
        file = folder / "options.toml"
        file.write_text("".join(lines))
        arguments = ["--config", str(file)]
    return arguments, environment


def clean_environment(folder):
    """Returns the environment without options of a server, and with ``folder`` as home."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STATESTORED_")}
    return {**inherited, "HOME": str(folder), "XDG_DATA_HOME": str(folder / "share")}


def run(way, options, folder):
    """Runs the program to its end."""
    arguments, environment = given(way, options, folder)
    return subprocess.run(
        [binary(), *arguments],
        env={**clean_environment(folder), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
    )


def allow_core_dumps():
    """Raises the soft limit of core dumps to the hard limit, so that the server has something to lower."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)


class Served:
    """A running server. ``addresses`` are those of its listeners, in their order."""

    def __init__(self, way, options, folder, environment=None):
        self.folder = folder
        arguments, own = given(way, options, folder)
        self._log = folder / "log"
        self._opened = []
        with open(self._log, "w") as log:
            self.process = subprocess.Popen(
                [binary(), *arguments],
                env={**clean_environment(folder), **(environment or {}), **own},
                stdin=subprocess.PIPE if "stop-with-stdin" in options else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=allow_core_dumps,
            )
        listeners = options.get("listen", [])
        count = len(listeners) + ("attach" in options) + ("http" in options)
        lines = [self.process.stdout.readline().strip() for _ in range(count)]
        assert all(lines), (lines, self.log())
        self.addresses = [line.removeprefix("listening on ") for line in lines if line.startswith("listening on ")]
        self.http = next((line.partition("://")[2] for line in lines if line.startswith("http on ")), None)

    def port(self, place=0):
        return int(self.addresses[place].rsplit(":", 1)[1])

    def log(self):
        return self._log.read_text()

    def peer(self, client_id, **options):
        """A connected paho client."""
        self._opened.append(Peer(self.port(), client_id, **options))
        return self._opened[-1]

    def store(self, client_id="store", **options):
        return Store(self.peer(client_id, **options))

    def dial(self, client_id, place=0, tls=None, **login):
        """Sends CONNECT; returns the connection and the reason code of CONNACK, None and None without CONNACK."""
        host, port = "127.0.0.1", self.port(place)
        try:
            plain = socket.create_connection((host, port), HANG_TIMEOUT)
            connection = wire.Connection.over(tls.wrap_socket(plain, server_hostname="localhost") if tls else plain)
            self._opened.append(connection)
            connection.send(login_packet(client_id, **login))
            return connection, connection.expect(wire.CONNACK)[1]
        except (EOFError, ConnectionError, ssl.SSLError):
            return None, None

    def connect(self):
        """Opens a TCP connection and sends nothing."""
        self._opened.append(wire.Connection(self.port()))
        return self._opened[-1]

    def disconnect(self):
        """Closes all connections, and waits until the server has none."""
        for one in self._opened:
            one.end() if isinstance(one, Peer) else one.close()
        self._opened.clear()
        until("no connections", lambda: self.metric("statestored_connections") == 0)

    def request(self, method, path, headers=None, body=None, tls=None):
        """Sends an HTTP request, with a TLS context over TLS; returns status and body."""
        if tls:
            connection = http.client.HTTPSConnection(self.http, timeout=HANG_TIMEOUT, context=tls)
        else:
            connection = http.client.HTTPConnection(self.http, timeout=HANG_TIMEOUT)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, name):
        """Returns the value of a sample, None if it is absent."""
        _, text = self.request("GET", "/metrics")
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return found and float(found[1])

    def end(self, how=signal.SIGTERM):
        """Sends the signal and returns the exit code."""
        self.process.send_signal(how)
        return self.process.wait(LONG)

    def close(self):
        for one in self._opened:
            one.end() if isinstance(one, Peer) else one.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def login_packet(client_id, user=None, password=None):
    """CONNECT with a clean start."""
    flags, body = 0x02, wire.binary(client_id)
    for bit, text in ((0x80, user), (0x40, password)):
        if text is not None:
            flags, body = flags | bit, body + wire.binary(text)
    return wire.packet(0x10, wire.binary("MQTT") + bytes([5, flags]) + struct.pack(">H", 0) + b"\0" + body)


def trust(authority, files=None):
    """Returns the TLS context of a client that trusts this authority; ``files`` are its certificate and key."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    if files:
        context.load_cert_chain(*map(str, files))
    return context


def upgrade(port, origin):
    """Returns the HTTP status of a WebSocket handshake with this ``Origin``."""
    key = base64.b64encode(os.urandom(16)).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_TIMEOUT)
    headers = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Protocol": "mqtt", "Origin": origin,
    }  # fmt: skip
    try:
        connection.request("GET", "/", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()
