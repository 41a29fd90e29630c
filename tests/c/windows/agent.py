#!/usr/bin/env python3
"""Starts programs of the host for tests that run under Wine: `agent.py COMMAND...`.

Runs COMMAND with the port of the agent in STATESTORE_TEST_AGENT, and returns its exit code. Each connection stands for one program. It
begins with the arguments, each with a NUL, and a newline; the answer is the first line of the program's output. Then each letter is an
order: s stops the program, c continues it, k kills it, and e closes its standard input and waits for its end. The answer is one byte, for e
the exit code. A connection that ends kills its program.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path


def is_stopped(process: int) -> bool:
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{process}/task").glob("*/stat")]
    return all(state == "T" for state in states)


def follow(order: bytes, program: subprocess.Popen[bytes]) -> int:
    """Carries out an order and returns its answer."""
    match order:
        case b"s":
            program.send_signal(signal.SIGSTOP)
            while not is_stopped(program.pid):
                time.sleep(0.001)
        case b"c":
            program.send_signal(signal.SIGCONT)
        case b"k":
            program.kill()
            program.wait()
        case b"e":
            program.communicate()
            return program.returncode & 0xFF
    return 0


def serve(connection: socket.socket) -> None:
    with connection, connection.makefile("rb") as orders:
        arguments = orders.readline().rstrip(b"\n").split(b"\0")[:-1]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            try:
                connection.sendall(program.stdout.readline())
                while order := orders.read(1):
                    connection.sendall(bytes([follow(order, program)]))
            except OSError:
                # The test has ended.
                pass
            finally:
                program.kill()


def main() -> int:
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=[connection]).start()

    threading.Thread(target=accept, daemon=True).start()
    environment = os.environ | {"STATESTORE_TEST_AGENT": str(listener.getsockname()[1])}
    return subprocess.run(sys.argv[1:], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
