"""The figures of docs/performance.md, from what `scripts/bench --keep` keeps in benchmarks/results.

    python3 benchmarks/figures          writes docs/images/figures/*.svg, the pictures in docs/performance.md, and the tables in notes/measurements.md
    python3 benchmarks/figures check    whether they are what would be written
    python3 benchmarks/figures about SECONDS [SERVER]
                                        the first line of a file of results: machine, date, commit; SERVER says what another build is

Python alone is needed.
"""

import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

from page import RESULTS_DIR, PICTURES, ROOT, check, written

# What is compiled for it.
MEASURED = ["Cargo.toml", "Cargo.lock", "core", "server", "cli", "benchmarks/Cargo.toml", "benchmarks/Cargo.lock", "benchmarks/src"]


def about(seconds: str, server: str) -> dict:
    """How it is being measured, here and now."""
    processor = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    changed = git("status", "--porcelain", "--", *MEASURED)
    return {
        "machine": f"{processor[1] if processor else platform.machine()}, {os.cpu_count()} cores, {round(memory / 2**30)} GiB",
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "date": time.strftime("%-d %B %Y"),
        "commit": git("rev-parse", "--short", "HEAD") + (", changed" if changed else ""),
        "server": server,
        "seconds": seconds,
    }


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    match sys.argv[1:]:
        case []:
            PICTURES.mkdir(parents=True, exist_ok=True)
            for path, text in written().items():
                path.write_text(text, encoding="utf-8")
        case ["check"]:
            check(written())
        case ["about", seconds, *server] if len(server) <= 1:
            print(json.dumps(about(seconds, *server or [""]), ensure_ascii=False))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
