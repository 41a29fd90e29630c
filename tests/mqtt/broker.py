"""Behind which broker the servers of these tests are: TESTED_BROKER is ``mosquitto`` or ``hivemq``, or not set for none. What differs there
is in tests/vectors/attached.json.

As a program, it starts that broker, says on which port, and ends it with its own input. HiveMQ runs with the jars in the class path HIVEMQ;
``scripts/test brokers`` sets it.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

BROKER = os.environ.get("TESTED_BROKER", "")
IS_BETWEEN = BROKER != ""

DIFFERENCES = json.loads((Path(__file__).parent.parent / "vectors" / "attached.json").read_text())["differences"]
# Each of these tests fails behind this broker, for this reason.
DIFFERS = {test: it["broker"] for it in DIFFERENCES if BROKER in it["brokers"] for test in it["tests"]}

# Debian keeps Mosquitto where only root looks.
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


class _Broker:
    """A broker on a free loopback port, which lets everybody in; ``port`` is where."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix=f"{self.name}-")
        for _ in range(10):
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                self.port = listener.getsockname()[1]
            if self._starts():
                return
        raise RuntimeError(f"{self.name} does not start: is it installed?")

    def _starts(self):
        self.process = subprocess.Popen(
            self.command(),
            # HiveMQ ends with its input.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": _PATH},
        )
        if any(line.endswith(b"running\n") for line in self.process.stdout):
            # It would stop if nobody read its log.
            self._reader = threading.Thread(target=lambda: all(self.process.stdout), daemon=True)
            self._reader.start()
            return True
        self._end()
        return False

    def _end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()

    def kill(self):
        self._end()
        self._reader.join()
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Mosquitto(_Broker):
    name = "mosquitto"

    def command(self):
        config = os.path.join(self.folder, "mosquitto.conf")
        with open(config, "w") as file:
            # As docs/attached.md says.
            lines = "persistence false\nlog_dest stderr\nallow_anonymous true\n"
            lines += "max_inflight_messages 1000\nmax_queued_messages 100000\nset_tcp_nodelay true\n"
            file.write(f"{lines}listener {self.port} 127.0.0.1\n")
        return ["mosquitto", "-c", config]


class HiveMq(_Broker):
    name = "hivemq"

    def command(self):
        source = Path(__file__).parent.parent / "hivemq" / "Broker.java"
        # It starts sooner so.
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return ["java", *quick, "-cp", os.environ["HIVEMQ"], str(source), str(self.port), self.folder]


_BROKERS = {"mosquitto": Mosquitto, "hivemq": HiveMq}


def start():
    """Starts one."""
    return _BROKERS[BROKER]()


def main():
    broker = start()
    print(broker.port, flush=True)
    sys.stdin.read()
    broker.kill()


if __name__ == "__main__":
    main()
