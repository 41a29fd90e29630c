#!/usr/bin/env python3
"""Calls on our component and on Dapr's own for Redis, through one daprd, in turns: both in memory, and both on disk. A third component
does nothing, and so shows what any pluggable component can reach.

    DAPRD_PEERS=… STATESTORED=… STATESTORE_DAPR=… NOTHING=… python3 tests/dapr/daprd/speed.py ROUNDS COMMAND…

The command is that of dapr/benches/daprd.rs, and NOTHING is dapr/benches/nothing.rs as a program.
"""

import os
import subprocess
import sys

from sidecar import Processes, check_environment
from stores import Nothing, Redis, Statestored

# The options of each.
TABLES = {
    "Redis with its defaults, and statestored in memory": ([], ["--storage", "memory"]),
    "both on disk before they answer": (["--appendonly", "yes", "--appendfsync", "always"], []),
}

if __name__ == "__main__":
    check_environment("DAPRD_PEERS", "STATESTORED", "STATESTORE_DAPR", "NOTHING")
    rounds, command = sys.argv[1], sys.argv[2:]
    for name, (of_redis, of_ours) in TABLES.items():
        print(f"\n{name}, medians of {rounds} rounds in turns:\n", flush=True)
        with Processes() as processes:
            stores = {"statestore": Statestored(processes, *of_ours), "redis": Redis(processes, *of_redis)}
            stores["nothing"] = Nothing(processes)
            daprd = processes.beside(stores)
            subprocess.run([*command, str(daprd.http), rounds, *stores], check=True)
