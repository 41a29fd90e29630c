#!/usr/bin/env python3
"""Plans how many devices a cluster can serve, and how many clusters a million devices need.

    deploy/capacity.py          prints the tables of docs/cluster.md
    deploy/capacity.py check    fails if the document has other tables
    deploy/capacity.py write    writes them into the document

The measured figures of the document are the input, so a new measurement changes the plan. The limits are arithmetic. A simulation shows that
a cluster at the planned load survives the loss of a leader and of a server. It covers each device, each write and each attempt to connect, with
the same random numbers at each run.

Simplifications: etcd executes one write after the other, at its measured rate. A write waits while there is no leader, although a real server
rejects it after 1.5 s and the device tries again. Devices write at regular intervals, plus or minus a half.
"""

import heapq
import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/cluster.md"
BEGIN, END = "<!-- capacity.py begins -->\n", "<!-- capacity.py ends -->\n"

DEVICES = 1_000_000
# Load of a device.
KEYS_EACH = 3
WRITE_EVERY = 30.0
READ_EVERY = 60.0
# Resources of a cluster.
NODES = 6
CONNECTIONS = 10_000
ETCD_MEMORY = 8 << 30
ETCD_QUOTA = 4 << 30
# Interval of compaction, in seconds; it keeps younger revisions.
RETENTION = 300.0
# Maximum time until a server has loaded all keys after its start, in seconds.
CATCH_UP = 30.0
# Planned share of the capacity; the rest is a reserve for failures.
SHARE = 0.5
# TLS connections that a server accepts per second (docs/performance.md).
HANDSHAKES = 998


@dataclass(frozen=True)
class Measured:
    writes: float
    reads: float
    memory_bytes: float
    file_bytes: float
    catch_up: float
    leader: float


@dataclass(frozen=True)
class Limit:
    what: str
    how: str
    devices: int


def figure(text: str, name: str) -> float:
    found = re.search(rf"^\| {re.escape(name)} \| ([\d.,]+)", text, re.MULTILINE)
    if not found:
        raise SystemExit(f"docs/cluster.md does not say: {name}")
    return float(found[1].replace(",", ""))


def measured(text: str) -> Measured:
    return Measured(
        writes=figure(text, "SETs per second"),
        reads=figure(text, "GETs per second"),
        memory_bytes=figure(text, "memory of a member per key, bytes"),
        file_bytes=figure(text, "etcd's file per uncompacted write, bytes"),
        catch_up=figure(text, "time of a server to read 100,000 keys, seconds") / 100_000,
        leader=figure(text, "longest time without an answer after a member is killed, seconds"),
    )


def limits(can: Measured) -> list[Limit]:
    """How many devices one cluster bears by each of what it has, the fewest first."""
    # Of a second, for each device.
    write, read = 1 / WRITE_EVERY, 1 / READ_EVERY
    held = KEYS_EACH * can.file_bytes + write * 2 * RETENTION * can.file_bytes
    found = [
        Limit("writes of etcd", f"{can.writes:,.0f} per second", can.writes * SHARE / write),
        Limit("reads of etcd", f"{can.reads:,.0f} per second", can.reads * SHARE / read),
        Limit("connections", f"{CONNECTIONS:,} on each of {NODES} servers, one of them failed", CONNECTIONS * (NODES - 1)),
        Limit("memory of each member", f"{ETCD_MEMORY >> 30} GiB", ETCD_MEMORY * SHARE / (KEYS_EACH * can.memory_bytes)),
        Limit("etcd's quota", f"{ETCD_QUOTA >> 30} GiB, compacted every {RETENTION / 60:.0f} minutes", ETCD_QUOTA * SHARE / held),
        Limit("start of a server", f"{CATCH_UP:.0f} s to read all keys", CATCH_UP / (KEYS_EACH * can.catch_up)),
    ]
    return sorted((Limit(it.what, it.how, int(it.devices)) for it in found), key=lambda it: it.devices)


class Shard:
    """One cluster and its devices, on simulated time."""

    def __init__(self, devices: int, can: Measured, seed: int) -> None:
        self.can = can
        self.chance = random.Random(seed)
        self.events: list[tuple[float, int, str, int]] = []
        self.count = 0
        self.node_of = [number % NODES for number in range(devices)]
        self.is_connected = [True] * devices
        self.engine_free = 0.0
        self.shaking_free = [0.0] * NODES
        # When each write was asked for, and how long it waited.
        self.waits: list[tuple[float, float]] = []
        self.back: list[float] = []
        self.missed: set[int] = set()
        self.lost_node = -1
        for device in range(devices):
            self.at(self.chance.uniform(0, WRITE_EVERY), "write", device)

    def at(self, when: float, what: str, device: int = 0) -> None:
        self.count += 1
        heapq.heappush(self.events, (when, self.count, what, device))

    def write(self, now: float, device: int) -> None:
        self.at(now + WRITE_EVERY * self.chance.uniform(0.5, 1.5), "write", device)
        if not self.is_connected[device]:
            # It has one value to write, the last, once it is connected again.
            self.missed.add(device)
            return
        self.engine_free = max(now, self.engine_free) + 1 / self.can.writes
        self.waits.append((now, self.engine_free - now))

    def lose_leader(self, now: float) -> None:
        self.engine_free = max(self.engine_free, now + self.can.leader)

    def lose_node(self, now: float) -> None:
        self.lost_node = 0
        for device, node in enumerate(self.node_of):
            if node == self.lost_node:
                self.is_connected[device] = False
                # The first attempt comes at once.
                self.at(now, "connect", device)

    def connect(self, now: float, device: int) -> None:
        node = 1 + self.chance.randrange(NODES - 1)
        self.shaking_free[node] = max(now, self.shaking_free[node]) + 1 / HANDSHAKES
        self.node_of[device] = node
        self.at(self.shaking_free[node], "connected", device)

    def connected(self, now: float, device: int) -> None:
        self.is_connected[device] = True
        self.back.append(now)
        if device in self.missed:
            self.missed.remove(device)
            self.engine_free = max(now, self.engine_free) + 1 / self.can.writes
            self.waits.append((now, self.engine_free - now))

    def run(self, leader_lost: float, node_lost: float, until: float) -> None:
        self.at(leader_lost, "leader")
        self.at(node_lost, "node")
        while self.events[0][0] < until:
            now, _, what, device = heapq.heappop(self.events)
            match what:
                case "write":
                    self.write(now, device)
                case "leader":
                    self.lose_leader(now)
                case "node":
                    self.lose_node(now)
                case "connect":
                    self.connect(now, device)
                case "connected":
                    self.connected(now, device)


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def rounded(devices: int) -> int:
    """Down to two digits."""
    unit = 10 ** max(0, len(str(devices)) - 2)
    return devices // unit * unit


def simulated(devices: int, can: Measured) -> list[str]:
    leader_lost, node_lost, until = 60.0, 120.0, 180.0
    shard = Shard(devices, can, seed=1)
    shard.run(leader_lost, node_lost, until)
    calm = [wait for asked, wait in shard.waits if asked < leader_lost - 1]
    stormy = [(asked, wait) for asked, wait in shard.waits if leader_lost <= asked < node_lost]
    usual = quantile(calm, 0.999)
    drained = max(asked for asked, wait in stormy if wait > usual * 2) - leader_lost - can.leader
    after = [wait for asked, wait in shard.waits if asked >= node_lost]
    return [
        f"- No leader for {can.leader:.1f} s: a write waits {max(wait for _, wait in stormy):.1f} s at most, and none {drained:.1f} s after the election.",
        f"- One server fails: {len(shard.back):,} devices reconnect, half of them within {quantile(shard.back, 0.5) - node_lost:.1f} s and all within "
        f"{max(shard.back) - node_lost:.1f} s. A write waits {max(after) * 1000:.0f} ms at most.",
    ]


def tables(text: str) -> str:
    can = measured(text)
    found = limits(can)
    devices = rounded(found[0].devices)
    shards = -(-DEVICES // devices)
    lines = [
        "| limit | one cluster has | devices |",
        "|---|---|---|",
        *(f"| {it.what} | {it.how} | {it.devices:,} |" for it in found),
        "",
        f"Plan {devices:,} devices for each cluster.",
        "",
        f"For {DEVICES:,} devices, run {shards} clusters: {3 * shards} members of etcd and {NODES * shards} servers.",
        f"Each member needs {KEYS_EACH * devices * can.memory_bytes / 1e6:,.0f} MB of memory, and its file grows to at most "
        f"{devices * (KEYS_EACH + 2 * RETENTION / WRITE_EVERY) * can.file_bytes / 1e6:,.0f} MB.",
        
        "",
        f"Simulated, one cluster of {devices:,} devices with TLS:",
        "",
        *simulated(devices, can),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    there, _, after = rest.partition(END)
    made = tables(text)
    match sys.argv[1:]:
        case []:
            print(made, end="")
        case ["check"]:
            if there != f"\n{made}\n":
                raise SystemExit(f"docs/cluster.md has other figures than these; 'deploy/capacity.py write' puts them there:\n{made}")
            print("the plan in docs/cluster.md is what follows from the measured figures")
        case ["write"]:
            PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
