"""`statestore` against the protocol by hand over paho-mqtt and aiomqtt, in one run against one server.

    python bench.py [--rounds N] [--seconds S]

The server is found as `statestore.testing` finds it. Each figure is the median of the rounds, in which the clients take turns.
"""

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from collections import defaultdict

import statestore
from aiomqtt_peer import AiomqttClient
from paho_peer import PahoClient
from statestore import aio
from statestore.testing import Server

KEY, VALUE = b"bench/key", b"x" * 100
IN_FLIGHT = 64


def blocking(call, seconds):
    """The times of calls, one after the other, in seconds."""
    times = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        call(KEY)
        times.append(time.perf_counter() - began)
    return times


def threaded(call, threads, seconds):
    """Calls per second of some threads together."""
    counts = []

    def work():
        counts.append(len(blocking(call, seconds)))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / seconds


async def concurrent(get, in_flight, seconds):
    """Calls per second of some tasks together, and the times of calls."""
    times = []
    end = time.perf_counter() + seconds

    async def work():
        while (began := time.perf_counter()) < end:
            await get(KEY)
            times.append(time.perf_counter() - began)

    await asyncio.gather(*(work() for _ in range(in_flight)))
    return len(times) / seconds, times


def microseconds(times):
    ordered = sorted(times)
    return statistics.median(ordered) * 1e6, ordered[int(len(ordered) * 0.99)] * 1e6


def measure(server, rounds, seconds):
    found = defaultdict(list)
    ours = statestore.connect(server.url)
    paho = PahoClient(server.host, server.port)
    ours.set(KEY, VALUE)
    assert ours.get(KEY).value == VALUE == paho.get(KEY)
    for _ in range(rounds):
        for name, client in (("statestore", ours), ("paho-mqtt", paho)):
            found[f"blocking, 1 thread: {name}"].append(microseconds(blocking(client.get, seconds)))
            found[f"1 thread: {name}"].append(threaded(client.get, 1, seconds))
            found[f"4 threads: {name}"].append(threaded(client.get, 4, seconds))
    ours.close()
    paho.close()
    asyncio.run(measure_asyncio(server, rounds, seconds, found))
    return found


async def measure_asyncio(server, rounds, seconds, found):
    async with aio.connect(server.url) as ours, AiomqttClient(server.host, server.port) as peer:
        assert (await ours.get(KEY)).value == VALUE == await peer.get(KEY)
        for _ in range(rounds):
            for name, client in (("statestore.aio", ours), ("aiomqtt", peer)):
                for in_flight in (1, IN_FLIGHT):
                    rate, times = await concurrent(client.get, in_flight, seconds)
                    found[f"asyncio, {in_flight} in flight: {name}"].append((rate, *microseconds(times)))


def median(found, name, index=None):
    return statistics.median(row if index is None else row[index] for row in found[name])


def measure_durable(server, rounds, seconds, found):
    """SET, each of which waits for the disk: what threads gain when calls wait."""
    with statestore.connect(server.url) as ours:
        for _ in range(rounds):
            for threads in ("1 thread", "4 threads"):
                rate = threaded(lambda key: ours.set(key, VALUE), int(threads[0]), seconds)
                found[f"durable, {threads}"].append(rate)


def report(found):
    print("\nBlocking GET, one at a time:\n")
    print("| | p50 | p99 |\n| --- | --- | --- |")
    for name in ("statestore", "paho-mqtt"):
        p50, p99 = (median(found, f"blocking, 1 thread: {name}", i) for i in (0, 1))
        print(f"| {name} | {p50:.0f} µs | {p99:.0f} µs |")
    ratio = median(found, "blocking, 1 thread: statestore", 0) / median(found, "blocking, 1 thread: paho-mqtt", 0)
    print(f"| ratio | {ratio:.2f} | |")

    print("\nBlocking calls, threads on one client (GET in memory, where not said otherwise):\n")
    print("| | 1 thread, req/s | 4 threads, req/s | ratio |\n| --- | --- | --- | --- |")
    for name in ("statestore", "paho-mqtt"):
        one, four = (median(found, f"{threads}: {name}") for threads in ("1 thread", "4 threads"))
        print(f"| {name} | {one:,.0f} | {four:,.0f} | {four / one:.1f} |")

    one, four = (median(found, f"durable, {threads}") for threads in ("1 thread", "4 threads"))
    print(f"| statestore, SET on durable storage | {one:,.0f} | {four:,.0f} | {four / one:.1f} |")

    print("\nGET in asyncio:\n")
    print("| | req/s | p50 | p99 |\n| --- | --- | --- | --- |")
    for in_flight in (1, IN_FLIGHT):
        for name in ("statestore.aio", "aiomqtt"):
            rate, p50, p99 = (median(found, f"asyncio, {in_flight} in flight: {name}", i) for i in range(3))
            print(f"| {name}, {in_flight} in flight | {rate:,.0f} | {p50:.0f} µs | {p99:.0f} µs |")
    ours, peer = (median(found, f"asyncio, {IN_FLIGHT} in flight: {name}", 0) for name in ("statestore.aio", "aiomqtt"))
    print(f"| ratio, {IN_FLIGHT} in flight | {ours / peer:.1f} | | |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    arguments = parser.parse_args()
    with Server() as server:
        found = measure(server, arguments.rounds, arguments.seconds)
    with tempfile.TemporaryDirectory() as folder, Server("--data-dir", folder) as server:
        measure_durable(server, arguments.rounds, arguments.seconds, found)
    report(found)


if __name__ == "__main__":
    main()
