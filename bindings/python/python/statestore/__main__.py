"""Runs the command line `statestore`: ``python -m statestore get KEY``.

The program is the one that the environment variable ``STATESTORE_BIN`` names, the one in the folder of programs of this environment, or
the one on ``PATH``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

NOT_FOUND = 127
"""Exit code without the program, as that of a shell."""


def find_program() -> Path | None:
    """Returns the path of the command line, or ``None`` if there is none."""
    named = os.environ.get("STATESTORE_BIN")
    if named:
        return Path(named) if Path(named).is_file() else None
    installed = Path(sysconfig.get_path("scripts"), "statestore.exe" if sys.platform == "win32" else "statestore")
    if installed.is_file():
        return installed
    found = shutil.which("statestore")
    return Path(found) if found else None


def run(command: list[str]) -> int:
    """Runs a command instead of this process, or within it if the system cannot replace a process. Returns its exit code."""
    if sys.platform != "win32":
        os.execv(command[0], command)
    with subprocess.Popen(command) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                # The program gets Ctrl-C as well, and decides.
                continue


def main() -> int:
    """Runs the command line with the arguments of this process, and returns its exit code."""
    program = find_program()
    if program is None:
        named = os.environ.get("STATESTORE_BIN")
        lacks = f"STATESTORE_BIN is {named!r}, which is not a file" if named else "there is no program `statestore` on PATH"
        print(f"python -m statestore: {lacks}; install the command line, or set STATESTORE_BIN to its path", file=sys.stderr)
        return NOT_FOUND
    return run([str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
