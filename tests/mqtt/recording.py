"""What the command line and the server of a release said to each other, byte for byte, and each half of it said again.

    python3 tests/mqtt/recording.py 0.1 SERVER CLIENT     records tests/releases/0.1: once for each release, never again

It needs Debian's faketime for that: a request must not be ahead of the clock of any server that it is ever said to again.

A recording is a command, how it ended, what it printed, and the packets of its connection, each on a line with `>` (from the client) or
`<` in front. Whoever plays one half waits for what the other one has to say before it goes on. What differs each time is put in: packet
identifiers and correlation data of the other side.
"""

import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import wire
from server import GUARD

FOLDER = Path(__file__).resolve().parent.parent / "releases"
CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, DISCONNECT = 0x10, 0x20, 0x30, 0x40, 0x80, 0x90, 0xE0
# Pings come when it is time for them.
PINGS = (0xC0, 0xD0)
CORRELATION_DATA, USER_PROPERTY = 0x09, 0x26
# How long the value of a property is: a number of bytes, or these.
VARIABLE, BINARY, PAIR = "variable", "binary", "pair"
PROPERTIES = {
    0x01: 1, 0x02: 4, 0x03: BINARY, 0x08: BINARY, 0x09: BINARY, 0x0B: VARIABLE, 0x11: 4, 0x12: BINARY, 0x13: 2, 0x15: BINARY, 0x16: BINARY,
    0x17: 1, 0x18: 4, 0x19: 1, 0x1A: BINARY, 0x1C: BINARY, 0x1F: BINARY, 0x21: 2, 0x22: 2, 0x23: 2, 0x24: 1, 0x25: 1, 0x26: PAIR, 0x27: 4,
    0x28: 1, 0x29: 1, 0x2A: 1,
}


class Reader:
    """Takes a packet apart."""

    def __init__(self, data):
        self.data = data

    def take(self, count):
        taken, self.data = self.data[:count], self.data[count:]
        assert len(taken) == count
        return taken

    def number(self):
        return struct.unpack(">H", self.take(2))[0]

    def variable(self):
        value = shift = 0
        while True:
            digit = self.take(1)[0]
            value |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                return value

    def binary(self):
        return self.take(self.number())

    def properties(self):
        """Pairs of an identifier and a value, as it is encoded."""
        inside, found = Reader(self.take(self.variable())), []
        while inside.data:
            kind = inside.variable()
            how = PROPERTIES[kind]
            if how == VARIABLE:
                value = wire.variable(inside.variable())
            elif how == BINARY:
                value = wire.binary(inside.binary())
            elif how == PAIR:
                value = wire.binary(inside.binary()) + wire.binary(inside.binary())
            else:
                value = inside.take(how)
            found.append((kind, value))
        return found


class Publish:
    """A PUBLISH, to be looked at and put together again."""

    def __init__(self, first, body):
        reader = Reader(body)
        self.first, self.topic = first, reader.binary()
        self.id = reader.number() if first & 0x06 else None
        self.properties = reader.properties()
        self.payload = reader.data

    @property
    def correlation(self):
        return next((value[2:] for kind, value in self.properties if kind == CORRELATION_DATA), None)

    def status(self):
        """The user properties but for those that are times."""
        pairs = []
        for kind, value in self.properties:
            if kind == USER_PROPERTY:
                reader = Reader(value)
                name, text = reader.binary(), reader.binary()
                pairs.append((name, b"" if name == b"__ts" else text))
        return sorted(pairs)

    def packet(self, packet_id, correlation):
        properties = b""
        for kind, value in self.properties:
            if kind == CORRELATION_DATA:
                value = wire.binary(correlation)
            properties += wire.variable(kind) + value
        body = wire.binary(self.topic) + (b"" if packet_id is None else struct.pack(">H", packet_id))
        return wire.packet(self.first, body + wire.variable(len(properties)) + properties + self.payload)


def split(packet):
    """The first byte, and what follows the length."""
    reader = Reader(packet[1:])
    reader.variable()
    return packet[0], reader.data


def meaning(packet):
    """What a packet of the server says, without what differs each time."""
    first, body = split(packet)
    kind = first & 0xF0
    if kind == PUBLISH:
        publish = Publish(first, body)
        # Keys come in an order of the server's own.
        payload = sorted(publish.payload.split(b"\r\n")) if publish.payload[:1] == b"*" else publish.payload
        return "PUBLISH", publish.topic, payload, publish.status()
    if kind == CONNACK:
        return "CONNACK", body[0], body[1]
    if kind == PUBACK:
        return "PUBACK", body[2] if len(body) > 2 else 0
    if kind == SUBACK:
        return "SUBACK", body[-1]
    return f"{kind:#04x}", b""


def command(packet):
    """What a packet of the client asks for."""
    first, body = split(packet)
    kind = first & 0xF0
    if kind == PUBLISH:
        publish = Publish(first, body)
        return "PUBLISH", publish.topic, publish.payload
    return (f"{kind:#04x}",)


class Stream:
    """A connection that takes whole packets, whenever they come."""

    def __init__(self, connection):
        connection.settimeout(GUARD)
        self.connection = connection

    def packet(self):
        """The next one; none at the end."""
        data = b""
        while len(data) < 2 or data[-1] & 0x80:
            piece = self.connection.recv(1)
            if not piece:
                return None
            data += piece
        length = Reader(data[1:]).variable()
        while length:
            piece = self.connection.recv(length)
            if not piece:
                return None
            data, length = data + piece, length - len(piece)
        return data

    def talk(self):
        """The next one that is no ping."""
        while (packet := self.packet()) is not None and packet[0] & 0xF0 in PINGS:
            if packet[0] & 0xF0 == 0xC0:
                self.connection.sendall(b"\xd0\0")
        return packet


class Recording:
    """One of them."""

    def __init__(self, path):
        self.name = path.stem
        lines = path.read_text(encoding="utf-8").splitlines()
        head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
        self.command = shlex.split(head["command"])
        self.code, self.printed = int(head["exit code"]), head["printed"].encode().decode("unicode_escape")
        self.packets = [(line[0], bytes.fromhex(line[2:])) for line in lines if line[:2] in ("> ", "< ")]

    def play_client(self, port):
        """Says to a server what the client said; what it answers and what it answered, each in order."""
        with socket.create_connection(("127.0.0.1", port), GUARD) as connection:
            stream, told, wanted, published = Stream(connection), [], [], []
            for direction, packet in self.packets:
                if direction == "<":
                    wanted.append(meaning(packet))
                    continue
                while len(told) < len(wanted):
                    answer = stream.talk()
                    assert answer is not None, f"the server ended it after {told}"
                    told.append(meaning(answer))
                    if answer[0] & 0xF0 == PUBLISH:
                        published.append(Publish(*split(answer)).id)
                if packet[0] & 0xF0 == PUBACK:
                    packet = wire.packet(packet[0], struct.pack(">H", published.pop(0)) + split(packet)[1][2:])
                connection.sendall(packet)
            # An acknowledgement and an answer may change places.
            return sorted(told, key=repr), sorted(wanted, key=repr)

    def play_server(self, client):
        """Says to a client what the server said: how it ends and what it prints, what it asked for, and what it has to."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(GUARD)
            url = f"mqtt://127.0.0.1:{listener.getsockname()[1]}"
            with subprocess.Popen([client, "--url", url, *self.command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                try:
                    asked, wanted = self._serve(listener)
                    printed, said = process.communicate(timeout=GUARD)
                finally:
                    process.kill()
        return (process.returncode, printed, asked), (self.code, self.printed, wanted), said

    def _serve(self, listener):
        connection, _ = listener.accept()
        with connection:
            stream, asked, wanted = Stream(connection), [], []
            correlations, ids = {}, {}
            for direction, packet in self.packets:
                first, body = split(packet)
                kind = first & 0xF0
                if direction == ">":
                    theirs = stream.talk()
                    assert theirs is not None, f"the client ended it after {asked}"
                    wanted.append(command(packet))
                    asked.append(command(theirs))
                    if kind == PUBLISH and theirs[0] & 0xF0 == PUBLISH:
                        now, then = Publish(*split(theirs)), Publish(first, body)
                        correlations[then.correlation], ids[then.id] = now.correlation, now.id
                    elif kind == SUBSCRIBE and theirs[0] & 0xF0 == SUBSCRIBE:
                        ids[Reader(body).number()] = Reader(split(theirs)[1]).number()
                    continue
                if kind == PUBLISH:
                    publish = Publish(first, body)
                    packet = publish.packet(publish.id, correlations.get(publish.correlation))
                elif kind in (PUBACK, SUBACK):
                    packet = wire.packet(first, struct.pack(">H", ids[Reader(body).number()]) + body[2:])
                connection.sendall(packet)
            # It may end when it has read everything.
            stream.talk()
            return sorted(asked), sorted(wanted)


def releases():
    """The recordings of each release, in their order."""
    folders = sorted(path for path in FOLDER.iterdir() if path.is_dir())
    return {folder.name: [Recording(path) for path in sorted(folder.glob("*.session"))] for folder in folders}


# When everything is recorded.
TIME = ["env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-f", "@2024-01-01 00:00:00"]
# What is recorded, in this order: a name, and a command. The keys are there from the command before.
COMMANDS = [
    ("set", "set greeting hello"),
    ("get", "get greeting"),
    ("get-absent", "get nobody"),
    ("set-nx", "set greeting other --nx"),
    ("set-nex", "set greeting hello --nex --px 60s"),
    ("set-fenced", "set guarded secret --fence 1700000000000:00000:old"),
    ("set-fence-required", "set guarded other"),
    ("set-escaped", r"--escaped set a\x00b \xff\r\n"),
    ("scan", "scan *"),
    ("vdel-other", "vdel greeting other"),
    ("vdel", "vdel greeting hello"),
    ("set-again", "set greeting again"),
    ("del", "del greeting"),
    ("del-absent", "del greeting"),
    ("del-fence-lower", "del guarded --fence 1600000000000:00000:old"),
]


def record(folder, name, line, client, port):
    """Runs a command through a proxy that writes down what is said."""
    packets, lock = [], threading.Lock()

    def carry(direction, source, sink):
        stream = Stream(source)
        while (packet := stream.packet()) is not None:
            with lock:
                if packet[0] & 0xF0 not in PINGS:
                    packets.append(f"{direction} {packet.hex()}")
                sink.sendall(packet)
        sink.shutdown(socket.SHUT_WR)

    arguments = ["--client-id", f"release-{name}", *shlex.split(line.replace("\\", "\\\\"))]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"mqtt://127.0.0.1:{listener.getsockname()[1]}"
        process = subprocess.Popen([*TIME, client, "--url", url, *arguments], stdout=subprocess.PIPE, text=True)
        near, _ = listener.accept()
        with near, socket.create_connection(("127.0.0.1", port), GUARD) as far:
            threads = [threading.Thread(target=carry, args=those) for those in ((">", near, far), ("<", far, near))]
            for thread in threads:
                thread.start()
            printed, _ = process.communicate(timeout=GUARD)
            for thread in threads:
                thread.join()
    head = [
        f"# command: {shlex.join(arguments)}",
        f"# exit code: {process.returncode}",
        f"# printed: {printed.encode('unicode_escape').decode()}",
    ]
    (folder / f"{name}.session").write_text("\n".join(head + packets) + "\n", encoding="utf-8")


def main():
    release, binary, client = sys.argv[1:]
    folder = FOLDER / release
    if folder.exists():
        sys.exit(f"{folder} is there: what was released does not change")
    folder.mkdir(parents=True)
    command_line = [*TIME, binary, "--listen", "tcp://127.0.0.1:0", "--storage", "memory"]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True, start_new_session=True) as server:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        for number, (name, command) in enumerate(COMMANDS, 1):
            record(folder, f"{number:02}-{name}", command, client, port)
        # It runs below faketime.
        os.killpg(server.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
