"""Records the packets between the command line and the server of a release.

    python3 tests/mqtt/recorder.py VERSION SERVER CLIENT     writes tests/releases/VERSION, once for each release

Needs Debian's faketime: requests are recorded at a fixed time in the past, so that they are never ahead of the clock of a server that they
are sent to later. A command that fails or hangs ends the recording with an error; no process and no partial recording stays.
"""

import shlex
import shutil
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from packet import PUBACK
from recording import FOLDER, PINGS, TIME, Command, Stream, stop
from server import HANG_TIMEOUT

@dataclass
class Step:
    """A command, which begins when the one before has ended, or when that one has acknowledged so many messages of the server.

    That the server has sent them is not enough: a watcher that has not read yet that its watch has begun takes a change for one of the
    time before, and would wait for the last one for ever.
    """

    line: str
    given: str = ""
    acknowledged_before: int = 0


@dataclass
class Session:
    """One recording."""

    name: str
    steps: list[Step] = field(default_factory=list)


def one(name, line, given=""):
    return Session(name, [Step(line, given)])


# What is recorded, in this order; a key is as the session before left it. Leases are so long that no holder renews one, however slow the
# machine is. TOKEN is what the last `lease acquire` printed, FIRST what the one before it did.
SESSIONS = [
    one("set", "set greeting hello"),
    one("get", "get greeting"),
    one("get-absent", "get nobody"),
    one("set-nx", "set greeting other --nx"),
    one("set-nex", "set greeting hello --nex --px 60s"),
    one("set-fenced", "set guarded secret --fence 1700000000000:00000:old"),
    one("set-fence-required", "set guarded other"),
    one("set-escaped", r"--escaped set a\x00b \xff\r\n"),
    one("scan", "scan *"),
    one("vdel-other", "vdel greeting other"),
    one("vdel", "vdel greeting hello"),
    one("set-again", "set greeting again"),
    one("del", "del greeting"),
    one("del-absent", "del greeting"),
    one("del-fence-lower", "del guarded --fence 1600000000000:00000:old"),
    Session(
        "watch",
        [
            Step("watch greeting --count 3"),
            Step("set greeting hello", acknowledged_before=1),
            Step("set greeting other"),
            Step("del greeting"),
        ],
    ),
    Session("watch-expired", [Step("watch fleeting --count 2"), Step("set fleeting soon --px 100ms", acknowledged_before=1)]),
    one("lease", "lease acquire nightly --holder first --lease 1h"),
    one("lease-held", "lease acquire nightly --holder second"),
    one("lease-holder", "lease holder nightly"),
    one("lease-renew", "lease renew nightly --holder first --lease 1h"),
    one("lease-write", "set report begun --fence TOKEN"),
    one("lease-release", "lease release nightly --holder first"),
    one("lease-nobody", "lease holder nightly"),
    Session(
        "lease-ended", [Step("watch daily --count 2"), Step("lease acquire daily --holder first --lease 2s", acknowledged_before=1)]
    ),
    one("lease-anew", "lease acquire daily --holder second --lease 1h"),
    one("lease-anew-write", "set journal second --fence TOKEN"),
    one("lease-late-write", "set journal first --fence FIRST"),
    one("transact-late-write", "transact", '{"set": "order", "value": "late"}\n{"set": "journal", "value": "late", "fence": "FIRST"}\n'),
    one("lock", 'lock hourly --lease 1h -- sh -c "echo $STATESTORE_FENCING_TOKEN"'),
    one("lock-held", "lease acquire hourly --holder first --lease 1h"),
    one("lock-not-had", "lock hourly --lease 1h --wait 0 -- true"),
    Session(
        "lock-taken-over",
        [
            Step('lock hourly --lease 1h -- sh -c "echo $STATESTORE_FENCING_TOKEN"'),
            Step("lease release hourly --holder first", acknowledged_before=4),
        ],
    ),
    one("transact", "transact", '{"set": "order", "value": "paid"}\n{"set": "receipt", "value": "7", "nx": true}\n'),
    one("transact-not-met", "transact", '{"set": "order", "value": "sent"}\n{"set": "receipt", "value": "8", "nx": true}\n'),
    one("transact-left", "get order"),
    Session(
        "transact-watched",
        [
            Step("watch order receipt --count 2"),
            Step(
                "transact",
                '{"set": "order", "value": "sent"}\n{"del": "receipt"}\n',
                acknowledged_before=2,
            ),
        ],
    ),
]


class Wiretap:
    """A proxy for the only connection of a command, which writes down what is said there."""

    def __init__(self, recorder, number, port):
        self.recorder, self.number, self.port = recorder, number, port
        self.acknowledged = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(HANG_TIMEOUT)
        self.url = f"mqtt://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        with self.listener:
            near, _ = self.listener.accept()
        with near, socket.create_connection(("127.0.0.1", self.port), HANG_TIMEOUT) as far:
            for end in (near, far):
                # A message would wait in here for the acknowledgement of the one before.
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threads = [threading.Thread(target=self._carry, args=those, daemon=True) for those in ((">", near, far), ("<", far, near))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _carry(self, direction, source, sink):
        stream = Stream(source)
        try:
            while (packet := stream.packet()) is not None:
                with self.recorder.changed:
                    if packet[0] & 0xF0 not in PINGS:
                        self.recorder.packets.append((self.number, direction, packet))
                    self.acknowledged += direction == ">" and packet[0] & 0xF0 == PUBACK
                    sink.sendall(packet)
                    self.recorder.changed.notify_all()
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            # The other half ends with it, instead of waiting for what cannot come.
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def wait_for(self, acknowledged):
        """Until this client has acknowledged so many messages."""
        with self.recorder.changed:
            there = self.recorder.changed.wait_for(lambda: self.acknowledged >= acknowledged, HANG_TIMEOUT)
        assert there, f"connection {self.number} has acknowledged {self.acknowledged} messages, and {acknowledged} were awaited"


class Recorder:
    """Records sessions, one after the other."""

    def __init__(self, folder, client, port):
        self.folder, self.client, self.port = folder, client, port
        self.changed = threading.Condition()
        self.packets, self.tokens = [], []

    def record(self, name, session):
        self.packets, running = [], []
        try:
            for number, step in enumerate(session.steps, 1):
                if step.acknowledged_before:
                    running[-1][2].wait_for(step.acknowledged_before)
                elif len(running) > 1:
                    running[-1][1].wait(HANG_TIMEOUT)
                running.append(self._start(session.name, number, step))
            commands = [self._end(*those) for those in running]
        finally:
            for _, process, *_ in running:
                stop(process)
        head = [line for number, command in enumerate(commands, 1) for line in command.head(number)]
        said = [f"{number if len(commands) > 1 else ''}{direction} {packet.hex()}" for number, direction, packet in self.packets]
        (self.folder / f"{name}.session").write_text("\n".join(head + said) + "\n", encoding="utf-8")

    def _start(self, session, number, step):
        told = dict(zip(("TOKEN", "FIRST"), reversed(self.tokens), strict=False))
        line, given = step.line.replace("\\", "\\\\"), step.given
        for name, token in told.items():
            line, given = line.replace(name, token) if "STATESTORE" not in line else line, given.replace(name, token)
        command = Command(["--client-id", f"release-{session}-{number}", *shlex.split(line)], 0, "", given)
        tap = Wiretap(self, number, self.port)
        process = command.start(self.client, tap.url)
        return command, process, tap

    def _end(self, command, process, tap):
        command.printed, _ = process.communicate(timeout=HANG_TIMEOUT)
        command.code = process.returncode
        tap.thread.join(HANG_TIMEOUT)
        assert not tap.thread.is_alive(), f"connection {tap.number} did not end"
        if "acquire" in command.arguments and command.code == 0:
            self.tokens.append(command.printed.strip())
        return command


def record(folder, binary, client):
    """Records all sessions of a server and a command line into a new folder."""
    if folder.exists():
        sys.exit(f"{folder} exists: the recording of a release never changes")
    if not shutil.which("faketime"):
        sys.exit("this machine lacks: faketime (Debian: faketime)")
    folder.mkdir(parents=True)
    command_line = [*TIME, binary, "--listen", "tcp://127.0.0.1:0", "--storage", "memory"]
    server = subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        recorder = Recorder(folder, client, port)
        for number, session in enumerate(SESSIONS, 1):
            recorder.record(f"{number:02}-{session.name}", session)
    except BaseException:
        # A partial recording is useless.
        shutil.rmtree(folder)
        raise
    finally:
        # It would run on otherwise, and a failure would hang instead of being reported.
        stop(server)


def main():
    version, binary, client = sys.argv[1:]
    record(FOLDER / version, binary, client)


if __name__ == "__main__":
    main()
