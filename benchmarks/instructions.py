"""Instructions for each request, in the server and in the client, counted by callgrind.

    python3 benchmarks/instructions.py [--before DIR] [--rounds N] DIR

DIR holds `statestored` and `statestore` of the build to count; --before names another build for comparison. Counts do not depend on how busy
the machine is. A count is the difference between a long and a short run, divided by the difference of their operations, so
that start and end of the programs are not part of it. Work of the kernel is not part of it either.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
from pathlib import Path

SHORT, LONG = 20_000, 60_000
LOADS = {
    "1 connection, 64 in flight": (1, 64),
    "1 connection, 256 in flight": (1, 256),
    "50 connections, 1 in flight on each": (50, 1),
}
VALGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]


def collected(log: str) -> int:
    """The number of instructions that callgrind reports at the end of a program."""
    found = re.search(r"Collected : (\d+)", log)
    if not found:
        raise SystemExit(f"callgrind reports no instructions:\n{log}")
    return int(found.group(1))


def run(build: Path, connections: int, in_flight: int, operations: int) -> tuple[int, int]:
    """The instructions of the server and of the client for a load of so many operations."""
    command = [*VALGRIND, build / "statestored", "--storage=memory", "--listen=tcp://127.0.0.1:0", "--log=warn"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        address = server.stdout.readline().removeprefix("listening on tcp://").strip()
        load = ["bench", "--keys=1000", "--mix=get=50,set=50", f"--ops={operations}"]
        load += [f"--connections={connections}", f"--in-flight={in_flight}"]
        command = [*VALGRIND, build / "statestore", f"--url=mqtt://{address}", *load]
        client = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if client.returncode:
            raise SystemExit(f"the load failed:\n{client.stderr}")
        server.terminate()
        _, log = server.communicate(timeout=60)
    finally:
        server.kill()
    return collected(log), collected(client.stderr)


def per_request(build: Path, connections: int, in_flight: int) -> tuple[float, float]:
    """The instructions of the server and of the client for a request."""
    short = run(build, connections, in_flight, SHORT)
    long = run(build, connections, in_flight, LONG)
    server, client = ((after - before) / (LONG - SHORT) for before, after in zip(short, long))
    return server, client


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="DIR", type=Path)
    parser.add_argument("--before", metavar="DIR", type=Path)
    parser.add_argument("--rounds", metavar="N", type=int, default=9)
    arguments = parser.parse_args()
    builds = {"now": arguments.build}
    if arguments.before:
        builds["before"] = arguments.before
    head = ["load", "program", *builds, *(["now / before"] if arguments.before else [])]
    print("| " + " | ".join(head) + " |\n" + "| --- " * len(head) + "|")
    for load, shape in LOADS.items():
        counts: dict[str, list[tuple[float, float]]] = {name: [] for name in builds}
        for _ in range(arguments.rounds):
            for name, build in builds.items():
                counts[name].append(per_request(build, *shape))
        for number, program in enumerate(["server", "client"]):
            medians = [statistics.median(count[number] for count in counts[name]) for name in builds]
            cells = [f"{median:,.0f}" for median in medians]
            if arguments.before:
                cells.append(f"{medians[0] / medians[1]:.3f}")
            print(f"| {load} | {program} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
