#!/usr/bin/env python3
"""Runs what the documentation says to a shell: `docs/sessions.py FOLDER`, where `statestored` and `statestore` are.

Each block has a folder, a home and a server of its own, which takes a free port instead of 1883. Each command of it succeeds, unless a
comment behind it says `# exit code N`. In a `console` block the lines behind `$ ` are typed, and the others are what then appears;
versions are not compared.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from blocks import Block, blocks

SHIMS = {
    "statestored": """case $1 in [a-z]*) exec "$PROGRAMS/statestored" "$@" ;; esac
exec "$PROGRAMS/statestored" --listen tcp://127.0.0.1:0 --log warn "$@" >"$WORK/listening\"""",
    "statestore": """until read -r _ _ address 2>/dev/null <"$WORK/listening"; do sleep 0.01; done
STATESTORE_URL=mqtt://${address#tcp://} exec "$PROGRAMS/statestore" "$@\"""",
    # What the examples run while they hold a lock.
    "nightly": "true",
}
VERSION = re.compile(r"\d{15}:\d{5}:[\w-]+")


def script(block: Block) -> str:
    code = block.code
    if block.language == "console":
        code = "\n".join(line[2:] for line in code.splitlines() if line.startswith("$ "))
    own = "" if "statestored" in code else "statestored --storage memory &\n"
    return f"""{own}{block.before} >/dev/null
trap 'echo "$? $BASH_COMMAND" >>"$WORK/failed"' ERR
{code}
echo $? >"$WORK/last"
"""


def run(block: Block, programs: Path) -> str:
    """What it did other than it should."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name, body in SHIMS.items():
            shim = work / name
            shim.write_text(f"#!/usr/bin/env bash\n{body}\n")
            shim.chmod(0o755)
        environment = {"HOME": folder, "PATH": f"{folder}:{os.environ['PATH']}", "PROGRAMS": str(programs), "WORK": folder}
        shell = subprocess.Popen(
            ["bash", "-c", script(block)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(work / "errors").open("w"),
            text=True,
            start_new_session=True,
        )
        try:
            # Its background jobs have the pipe as well, and go on: the end of the shell is what counts.
            shell.wait(60)
        except subprocess.TimeoutExpired:
            return "it does not end\n" + (work / "errors").read_text()
        finally:
            # Nothing is left if the block stops what it starts.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
        printed = shell.communicate()[0]
        failed = (work / "failed").read_text().splitlines() if (work / "failed").exists() else []
        last = (work / "last").read_text().strip()
        errors = (work / "errors").read_text()
    announced = re.findall(r"^(.*?) +# exit code (\d+)", block.code, re.MULTILINE)
    wanted = [f"{code} {command}" for command, code in announced]
    if failed != wanted or (last != "0" and not wanted):
        return f"failed: {failed}, the last one with {last}; to fail: {wanted}\n{errors}"
    if block.language == "console":
        shown = "".join(f"{line}\n" for line in block.code.splitlines() if not line.startswith("$ "))
        if VERSION.sub("", printed) != VERSION.sub("", shown):
            return f"it prints:\n{printed}"
    return ""


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    programs = Path(sys.argv[1]).resolve()
    every = blocks("docs")
    faults = [f"{block}: {fault}" for block in every if (fault := run(block, programs))]
    if faults or not every:
        raise SystemExit("\n".join(faults) or "there are no sessions")
    print(f"{len(every)} sessions of a shell do what the documentation says")


if __name__ == "__main__":
    main()
