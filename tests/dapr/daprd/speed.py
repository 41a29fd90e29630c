#!/usr/bin/env python3
"""Calls on our component and on Dapr's own for Redis, through one daprd, in turns: both in memory, and both on disk. A third component
does nothing, and so shows what any pluggable component can reach.

    DAPRD_PEERS=… STATESTORED=… STATESTORE_DAPR=… NOTHING=… python3 tests/dapr/daprd/speed.py ROUNDS memory|disk|both COMMAND…

The command is that of dapr/benches/daprd.rs, and NOTHING is dapr/benches/nothing.rs as a program.
"""

import os
import subprocess
import sys

from sidecar import Processes, check_environment
from stores import Nothing, Redis, Statestored

# The name of each table, and the options of both.
TABLES = {
    "memory": ("Redis with its defaults, and statestored in memory", [], ["--storage", "memory"]),
    "disk": ("both on disk before they answer", ["--appendonly", "yes", "--appendfsync", "always"], []),
}

if __name__ == "__main__":
    check_environment("DAPRD_PEERS", "STATESTORED", "STATESTORE_DAPR", "NOTHING")
    rounds, only, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    for name, of_redis, of_ours in TABLES.values() if only == "both" else [TABLES[only]]:
        print(f"\n{name}, medians of {rounds} rounds in turns:\n", flush=True)
        with Processes() as processes:
            stores = {"statestore": Statestored(processes, *of_ours), "redis": Redis(processes, *of_redis)}
            stores["nothing"] = Nothing(processes)
            daprd = processes.beside(stores)
            subprocess.run([*command, str(daprd.http), rounds, *stores], check=True)
