#!/usr/bin/env python3
"""The component beside Dapr's own for Redis and etcd, through one daprd, over HTTP.

    DAPRD_PEERS=… STATESTORED=… STATESTORE_DAPR=… python3 tests/dapr/daprd/peers.py

Every trial is made with all three, and each is held to what docs/dapr.md says of it. One of Dapr's own that does better than that makes
its test fail: the page is wrong then.
"""

import json
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from sidecar import PATIENCE, Processes, State, check_environment, upsert
from stores import Etcd, Redis, RedisWithReplica, Statestored

FIRST_WRITE = {"options": {"concurrency": "first-write"}}

# More seconds than any store counts.
TOO_LONG = {"metadata": {"ttlInSeconds": str(2**63 - 1)}}

# More than ours and Redis may keep in the trial of it, and than etcd takes.
TOO_LARGE = "x" * (2 << 20)

# How often a race is run before it counts as fair.
RACES = 100
RACERS = 32
ONE, SEVERAL = "one winner", "several winners"


def begin(processes, **stores):
    """One daprd with a component for each store."""
    daprd = processes.beside(stores)
    return {name: State(daprd, name) for name in stores}


def race(prepare, write):
    """How many writers of a race are told that they have won: in the first in which it is not one, if there is any."""
    with ThreadPoolExecutor(RACERS) as threads:
        for number in range(RACES):
            given = prepare(number)
            told = list(threads.map(lambda racer: write(number, given, racer), range(RACERS)))
            if told.count(204) != 1:
                return SEVERAL if told.count(204) else "no winner"
    return ONE


def value_in_the_end(state, key):
    """What is read as soon as the store answers again."""
    end_of_patience = time.monotonic() + PATIENCE
    while True:
        status, _, body = state.api.ask("GET", f"{state.path}/{key}")
        if status < 300:
            return json.loads(body) if status == 200 else None
        assert time.monotonic() < end_of_patience, body
        time.sleep(0.05)


class Beside(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        processes = Processes()
        cls.addClassCleanup(processes.close)
        cls.redis = Redis(processes)
        ours = Statestored(processes, "--max-bytes", "1000000")
        cls.states = begin(processes, ours=ours, redis=cls.redis, etcd=Etcd(processes))

    def compare(self, trial, **expected):
        seen = {name: trial(self.states[name]) for name in expected}
        self.assertEqual(seen, expected)

    def test_an_etag_without_an_entry(self):
        def trial(state):
            return [state.save({"key": "none", "value": 1, "etag": "7"}), state.value("none")]

        self.compare(trial, ours=[400, None], redis=[204, 1], etcd=[409, None])

    def test_the_etag_of_an_entry_that_was_deleted_and_made_anew(self):
        def trial(state):
            state.save({"key": "anew", "value": 1})
            old = state.etag("anew")
            state.delete("anew")
            state.save({"key": "anew", "value": 2})
            return [state.save({"key": "anew", "value": 3, "etag": old}), state.value("anew")]

        self.compare(trial, ours=[409, 2], redis=[204, 3], etcd=[409, 2])

    def test_a_first_write_over_an_entry(self):
        def trial(state):
            state.save({"key": "over", "value": 1})
            return [state.save({"key": "over", "value": 2, **FIRST_WRITE}), state.value("over")]

        self.compare(trial, ours=[409, 1], redis=[204, 2], etcd=[409, 1])

    def test_a_save_without_an_etag_after_a_first_write(self):
        def trial(state):
            state.save({"key": "sticky", "value": 1, **FIRST_WRITE})
            last = {"key": "sticky", "value": 2, "options": {"concurrency": "last-write"}}
            return [state.save(last), state.value("sticky")]

        self.compare(trial, ours=[204, 2], redis=[500, 1], etcd=[204, 2])

    def test_a_save_with_an_etag_that_fails_for_another_reason(self):
        def trial(state):
            state.save({"key": "large", "value": 1})
            large = {"key": "large", "value": TOO_LARGE, "etag": state.etag("large")}
            self.redis.ask("CONFIG SET maxmemory 1")
            try:
                return [state.save(large), state.value("large")]
            finally:
                self.redis.ask("CONFIG SET maxmemory 0")

        self.compare(trial, ours=[500, 1], redis=[409, 1], etcd=[500, 1])

    def test_an_expiry_that_is_refused(self):
        def trial(state):
            status = state.save({"key": "expiry", "value": 1, **TOO_LONG})
            return [status, state.value("expiry")]

        self.compare(trial, ours=[204, 1], redis=[500, 1], etcd=[500, None])

    def test_a_stale_etag_in_a_transaction(self):
        def trial(state):
            state.save({"key": "stale", "value": 1})
            old = state.etag("stale")
            state.save({"key": "stale", "value": 2})
            status, _ = state.transact(upsert("before", 3), upsert("stale", 3, etag=old), upsert("after", 3))
            return [status, *map(state.value, ("before", "stale", "after"))]

        self.compare(trial, ours=[500, None, 2, None], redis=[500, 3, 2, 3], etcd=[500, None, 2, None])

    def test_a_first_write_over_an_entry_in_a_transaction(self):
        def trial(state):
            state.save({"key": "first", "value": 1})
            status, _ = state.transact(upsert("first", 2, **FIRST_WRITE))
            return [status, state.value("first")]

        self.compare(trial, ours=[500, 1], redis=[204, 2], etcd=[500, 1])

    def test_a_race_of_saves_with_one_etag(self):
        def trial(state):
            def prepare(_):
                state.save({"key": "race", "value": 0})
                return state.etag("race")

            def write(_, etag, racer):
                return state.save({"key": "race", "value": racer, "etag": etag})

            return race(prepare, write)

        self.compare(trial, ours=ONE, redis=ONE, etcd=SEVERAL)

    def test_a_race_of_first_writes(self):
        def trial(state):
            def write(number, _, racer):
                return state.save({"key": f"race-{number}", "value": racer, **FIRST_WRITE})

            return race(lambda _: None, write)

        self.compare(trial, ours=ONE, redis=ONE, etcd=SEVERAL)

    def test_a_race_of_transactions_with_one_etag(self):
        def trial(state):
            def prepare(_):
                state.save({"key": "race-of", "value": 0})
                return state.etag("race-of")

            def write(_, etag, racer):
                return state.transact(upsert("race-of", racer, etag=etag), upsert(f"race-of-{racer}", 1))[0]

            return race(prepare, write)

        self.compare(trial, ours=ONE, redis=ONE, etcd=SEVERAL)


class Crash(unittest.TestCase):
    def test_a_strong_save_before_a_crash(self):
        """The replica of Redis goes before the save, and is back after the crash."""
        with Processes() as processes:
            stores = {"ours": Statestored(processes), "redis": RedisWithReplica(processes), "etcd": Etcd(processes)}
            states = begin(processes, **stores)
            stores["redis"].replica.crash()
            strong = {"key": "strong", "value": 1, "options": {"consistency": "strong"}}
            seen = {}
            for name, state in states.items():
                seen[name] = [state.save(strong)]
                stores[name].crash()
                stores[name].start()
                seen[name].append(value_in_the_end(state, "strong"))
        self.assertEqual(seen, {"ours": [204, 1], "redis": [204, None], "etcd": [204, 1]})


if __name__ == "__main__":
    check_environment("DAPRD_PEERS", "STATESTORED", "STATESTORE_DAPR")
    unittest.main()
