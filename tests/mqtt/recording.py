"""What the command line and the server of a release said to each other, byte for byte, and each half of it said again.

A recording has a connection, or several at a time: of each the command, how it ended, what it printed, and the packets, each on a line
with `>` (from the client) or `<` in front, behind the number of its connection where there are several. They stand in the order in which
they passed. Whoever plays one half waits for what the other one had said before it goes on, on every connection, so that a watcher
is there before the change that it is told of. What differs each time is put in: packet identifiers and correlation data of the other side.
`recorder.py` makes them.
"""

import os
import shlex
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import wire
from packet import PUBACK, PUBLISH, SUBACK, SUBSCRIBE, SessionSide, Publish, Reader, demand, meaning, split
from server import HANG_TIMEOUT

FOLDER = Path(__file__).resolve().parent.parent / "releases"
DISCONNECT = 0xE0
# When everything is recorded, and when what a server said is said again: how old a lease is depends on it. Debian's faketime does that.
TIME = ["env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-f", "@2024-01-01 00:00:00"]
# Pings come when it is time for them.
PINGS = (0xC0, 0xD0)


class Stream:
    """A connection that takes whole packets, whenever they come."""

    def __init__(self, connection):
        connection.settimeout(HANG_TIMEOUT)
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


@dataclass
class Command:
    """What made one of the connections."""

    arguments: list[str]
    code: int
    printed: str
    given: str

    def start(self, client, url, **options):
        """Runs it at that time, in a process group of its own."""
        process = subprocess.Popen(
            [*TIME, client, "--url", url, *self.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        process.stdin.write(self.given)
        process.stdin.close()
        process.stdin = None
        return process

    def head(self, number):
        """The lines of a recording that say so."""
        behind = f" {number}" if number > 1 else ""
        return [
            f"# command{behind}: {shlex.join(self.arguments)}",
            *([f"# input{behind}: {escaped(self.given)}"] if self.given else []),
            f"# exit code{behind}: {self.code}",
            f"# printed{behind}: {escaped(self.printed)}",
        ]


def stop(process):
    """Ends it with what runs below faketime, which hands no signal on."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def escaped(text):
    return text.encode("unicode_escape").decode()


def unescaped(text):
    return text.encode().decode("unicode_escape")


class Player:
    """The client of a connection to the server of today, which says what that of the release said."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), HANG_TIMEOUT)
        self.stream = Stream(self.socket)
        # What the server said then and says now.
        self.then, self.now = SessionSide(), SessionSide()
        self.expected = self.heard = 0

    def expect(self, packet):
        self.then.add(packet)
        self.expected += 1

    def catch_up(self):
        """Waits until the server has said as much as then."""
        while self.heard < self.expected:
            packet = self.stream.talk()
            assert packet is not None, f"the server ended it after {self.now.lanes}"
            self.now.add(packet)
            self.heard += 1

    def say(self, packet):
        if packet[0] & 0xF0 == PUBACK:
            answered = self.now.counterpart(self.then, Reader(split(packet)[1]).number())
            packet = wire.packet(packet[0], struct.pack(">H", answered.id) + split(packet)[1][2:])
        self.socket.sendall(packet)


class Recording:
    """One of them."""

    def __init__(self, path):
        self.name = path.stem
        lines = path.read_text(encoding="utf-8").splitlines()
        head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
        self.commands, number = {}, 1
        while f"command{(behind := f' {number}' if number > 1 else '')}" in head:
            self.commands[number] = Command(
                shlex.split(head[f"command{behind}"]),
                int(head[f"exit code{behind}"]),
                unescaped(head[f"printed{behind}"]),
                unescaped(head.get(f"input{behind}", "")),
            )
            number += 1
        said = [line.split(" ", 1) for line in lines if not line.startswith("#")]
        self.packets = [(int(who[:-1] or 1), who[-1], bytes.fromhex(packet)) for who, packet in said]

    def play_clients(self, port):
        """Says to a server what the clients said; what it answers, and what it answered then."""
        players, ended = {}, set()
        try:
            for number, direction, packet in self.packets:
                if number not in players:
                    players[number] = Player(port)
                if direction == "<":
                    # What passed when the client had gone need not come.
                    if number not in ended:
                        players[number].expect(packet)
                    continue
                for player in players.values():
                    player.catch_up()
                players[number].say(packet)
                if packet[0] & 0xF0 == DISCONNECT:
                    ended.add(number)
            for player in players.values():
                player.catch_up()
        finally:
            for player in players.values():
                player.socket.close()
        # The keys of a SCAN come in an order of the server's own.
        in_order = not any("scan" in command.arguments for command in self.commands.values())
        return meaning([it.now for it in players.values()], in_order), meaning([it.then for it in players.values()], in_order)

    def play_server(self, client, number):
        """Says to a client what the server said on one connection: how it ends, what it prints and asks for, what it has to, and what it complains of."""
        command = self.commands[number]
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(HANG_TIMEOUT)
            url = f"mqtt://127.0.0.1:{listener.getsockname()[1]}"
            process = command.start(client, url, stderr=subprocess.PIPE)
            try:
                asked, wanted = self._serve(listener, number)
                printed, said = process.communicate(timeout=HANG_TIMEOUT)
            finally:
                stop(process)
        return (process.returncode, printed, asked), (command.code, command.printed, wanted), said

    def _serve(self, listener, number):
        connection, _ = listener.accept()
        with connection:
            stream, now, then, subscribed = Stream(connection), SessionSide(), SessionSide(), []
            for who, direction, packet in self.packets:
                if who != number:
                    continue
                first, body = split(packet)
                kind = first & 0xF0
                if direction == ">":
                    theirs = stream.talk()
                    assert theirs is not None, f"the client ended it after {now.lanes}"
                    then.add(packet)
                    now.add(theirs)
                    if theirs[0] & 0xF0 == SUBSCRIBE:
                        subscribed.append(Reader(split(theirs)[1]).number())
                    continue
                if kind == PUBLISH:
                    publish = Publish(first, body)
                    packet = publish.packet(publish.id, self._asked_now(publish, then, now))
                elif kind == PUBACK:
                    packet = wire.packet(first, struct.pack(">H", now.counterpart(then, Reader(body).number()).id) + body[2:])
                elif kind == SUBACK:
                    packet = wire.packet(first, struct.pack(">H", subscribed.pop(0)) + body[2:])
                connection.sendall(packet)
            # It may end when it has read everything.
            stream.talk()
            return demand(now), demand(then)

    @staticmethod
    def _asked_now(answer, then, now):
        """The correlation data that the client of today has for what the answer is to."""
        for lane, publishes in then.publishes.items():
            for place, publish in enumerate(publishes):
                if publish.correlation is not None and publish.correlation == answer.correlation:
                    return now.publishes[lane][place].correlation
        return answer.correlation


def read(folder):
    """Returns the recordings of a folder, in their order."""
    return [Recording(path) for path in sorted(folder.glob("*.session"))]


def releases():
    """Returns the versions of the recorded releases."""
    return sorted(path.name for path in FOLDER.iterdir()) if FOLDER.exists() else []
