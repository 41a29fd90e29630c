#!/usr/bin/env python3
"""Calls on our component and on Dapr's own for Redis, through one daprd, in turns: both in memory, and both on disk.

    DAPRD_PEERS=… STATESTORED=… STATESTORE_DAPR=… python3 tests/dapr/daprd/speed.py ROUNDS COMMAND…

The command is that of dapr/benches/daprd.rs.
"""

import os
import subprocess
import sys

from sidecar import Processes, check_environment
from stores import Redis, Statestored

# The options of each.
TABLES = {
    "Redis with its defaults, and statestored in memory": ([], ["--storage", "memory"]),
    "both on disk before they answer": (["--appendonly", "yes", "--appendfsync", "always"], []),
}

if __name__ == "__main__":
    check_environment("DAPRD_PEERS", "STATESTORED", "STATESTORE_DAPR")
    rounds, command = sys.argv[1], sys.argv[2:]
    for name, (of_redis, of_ours) in TABLES.items():
        print(f"\n{name}, medians of {rounds} rounds in turns:\n", flush=True)
        with Processes() as processes:
            stores = {"statestore": Statestored(processes, *of_ours), "redis": Redis(processes, *of_redis)}
            daprd = processes.beside(stores)
            subprocess.run([*command, str(daprd.http), rounds, *stores], check=True)
