#!/usr/bin/env python3
"""Measures the cluster of compose.yaml on this machine: `deploy/measure.py FOLDER`, with release builds of the programs of trial.py.

All processes and the load share one machine and one disk, so separate machines are at least as fast. docs/cluster.md has the figures.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import trial
import yaml
from trial import Cluster, Place

KEYS = 100_000
HOT = "2000"
SECONDS = "5"
ROUNDS = 3
NODES = 6


def bench(place: Place, cluster: Cluster, nodes: list[str], *words: str) -> list[dict]:
    """Runs a load on each node at the same time, and returns their reports."""
    running = []
    for number, host in enumerate(nodes):
        command = [place.programs / "statestore", "--url", cluster.url(place, host), "bench", "--json"]
        running.append(subprocess.Popen([*command, "--key-prefix", f"{number}:", *words], stdout=subprocess.PIPE, text=True))
    said = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit(f"bench {' '.join(words)} failed: {said}")
    return [json.loads(line.splitlines()[-1]) for line in said if line]


def resident(cluster: Cluster, host: str) -> int:
    """Resident memory of a process, in bytes."""
    status = Path(f"/proc/{cluster.processes[host].pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


def rates(place: Place, cluster: Cluster) -> None:
    services = yaml.safe_load((trial.HERE / "compose.yaml").read_text())["services"]
    for number in range(len(cluster.nodes), NODES):
        cluster.nodes.append(f"node{number}")
        trial.begin(place, cluster, cluster.nodes[-1], services["node0"])
        trial.ready(place, cluster, cluster.nodes[-1])
    print("| | nodes | req/s | p50 | p99 |\n|---|---|---|---|---|")
    for mix, what in (("get=1", "GET"), ("set=1", "SET"), ("get=1,set=1", "half GET, half SET")):
        for in_flight, count in (("1", 1), ("256", 1), ("256", 2), ("256", 3), ("256", NODES)):
            found = []
            for _ in range(ROUNDS):
                said = bench(place, cluster, cluster.nodes[:count], "--mix", mix, "--keys", HOT, "--in-flight", in_flight, "--seconds", SECONDS)
                loads = [it["load"] for it in said]
                latencies = [it["latency"]["all"] for it in loads]
                rate = sum(it["operations_per_second"] for it in loads)
                found.append((rate, max(it["p50_us"] for it in latencies), max(it["p99_us"] for it in latencies)))
            rate, p50, p99 = sorted(found)[ROUNDS // 2]
            print(f"| {what}, {in_flight} in flight on each | {count} | {rate:,.0f} | {p50 / 1000:.1f} ms | {p99 / 1000:.1f} ms |", flush=True)


def memory(place: Place, cluster: Cluster) -> None:
    hosts = ["etcd0", "node0"]
    before = {host: resident(cluster, host) for host in hosts}
    file = place.folder / "etcd0/member/snap/db"
    size = file.stat().st_size
    bench(place, cluster, cluster.nodes[:1], "--keys", str(KEYS), "--ops", "0", "--keep")
    for host in hosts:
        print(f"{host}: {(resident(cluster, host) - before[host]) / KEYS:.0f} bytes of memory per key")
    print(f"etcd0: {(file.stat().st_size - size) / KEYS:.0f} bytes of its file per key")
    services = yaml.safe_load((trial.HERE / "compose.yaml").read_text())["services"]
    trial.end(cluster.processes.pop("node0"))
    began = time.monotonic()
    trial.begin(place, cluster, "node0", services["node0"])
    trial.ready(place, cluster, "node0")
    print(f"node0: ready {time.monotonic() - began:.2f} s after its start, {KEYS:,} keys")
    print(f"node0: {resident(cluster, 'node0') / 1_000_000:.0f} MB then")


def main() -> None:
    for part in (rates, memory):
        with trial.place(Path(sys.argv[1]).resolve()) as place:
            part(place, trial.start(place))


if __name__ == "__main__":
    main()
