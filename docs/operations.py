#!/usr/bin/env python3
"""Runs docs/operations.md as its reader would: `docs/operations.py FOLDER`, where `statestored` and `statestore` are.

Its `console` blocks are one session. The lines behind `$ ` and `> ` are typed, and the others are what then appears; ports are
replaced by free ones, and versions, times and sizes are not compared. `--show` prints what appears instead.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from blocks import blocks

PORTS = ("8883", "9883", "9090")
# What differs from run to run.
VARIABLE = re.compile(r"\d{15}:\d{5}:[\w-]+|\d+(\.\d+)? (bytes|s|ms|KiB|MiB)\b")
# Ends what one command prints. Nothing that it runs knows it.
MARK = "-- the end of what a command printed --"
SECONDS = 120


def free_ports() -> dict[str, str]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in PORTS]
    ports = {port: str(its.getsockname()[1]) for port, its in zip(PORTS, held)}
    for its in held:
        its.close()
    return ports


def commands(code: str) -> list[tuple[str, str]]:
    """Each command of a block, and what it is to print."""
    found: list[tuple[str, str]] = []
    for line in code.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> ") or line == ">":
            command, printed = found[-1]
            found[-1] = (f"{command}\n{line[2:]}", printed)
        else:
            command, printed = found[-1]
            found[-1] = (command, f"{printed}{line}\n")
    return found


def replaced(text: str, by: dict[str, str]) -> str:
    for old, new in by.items():
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--show"]
    if len(arguments) != 1:
        raise SystemExit(__doc__)
    programs = Path(arguments[0]).resolve()
    session = [command for block in blocks("operations") for command in commands(block.code)]
    ports = free_ports()
    back = {new: old for old, new in ports.items()}
    script = "".join(f"{replaced(command, ports)}\necho '{MARK}'\n" for command, _ in session)
    with tempfile.TemporaryDirectory() as folder:
        environment = {"HOME": folder, "PATH": f"{programs}:{os.environ['PATH']}"}
        shell = subprocess.Popen(
            ["bash", "-c", f"exec 2>&1\n{script}"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            printed = shell.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            printed = shell.communicate()[0]
            log = Path(folder, "statestored.log")
            told = log.read_text() if log.exists() else ""
            raise SystemExit(f"it does not end; it printed:\n{printed}\n{told}") from None
        finally:
            try:
                os.killpg(shell.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    outputs = replaced(printed, back).split(f"{MARK}\n")
    if "--show" in sys.argv:
        for (command, _), output in zip(session, outputs):
            print(f"$ {command}\n{output}", end="")
        return
    faults = [
        f"$ {command}\nprints:\n{output}"
        for (command, wanted), output in zip(session, outputs)
        if VARIABLE.sub("", output) != VARIABLE.sub("", wanted)
    ]
    if faults or len(outputs) != len(session) + 1:
        raise SystemExit("\n".join(faults) or f"it ends early:\n{printed}")
    print(f"{len(session)} commands of an operator do what docs/operations.md says")


if __name__ == "__main__":
    main()
