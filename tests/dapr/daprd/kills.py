#!/usr/bin/env python3
"""daprd is killed in the middle of transactions: each is done as a whole or not at all, and what was acknowledged is there.

    DAPRD=… STATESTORED=… STATESTORE_DAPR=… python3 tests/dapr/daprd/kills.py

STATESTORE_DAPR_KILLS says how often; 10 times if it does not.
"""

import os
import random
import sys
import threading
import time
from http.client import HTTPException
from urllib.error import URLError

from sidecar import Processes, State, check_environment, component, upsert

WRITERS = 3
KEYS = "abcd"


class Writer(threading.Thread):
    """Gives all of its keys the next number, again and again, until daprd is gone."""

    def __init__(self, api, name, number):
        super().__init__()
        self.store, self.name_of_keys = State(api, "store"), name
        self.sent = self.acknowledged = number
        self.problem = None

    def run(self):
        while True:
            self.sent += 1
            operations = [upsert(f"{self.name_of_keys}{key}", self.sent) for key in KEYS]
            try:
                status, body = self.store.transact(*operations)
            except (URLError, HTTPException, OSError):
                return
            if status == 204:
                self.acknowledged = self.sent
            elif status < 500:
                self.problem = f"{status} {body}"
                return


def check(api, writer):
    values = {State(api, "store").value(f"{writer.name_of_keys}{key}") for key in KEYS}
    assert len(values) == 1, f"a part of a transaction: {values}"
    value = values.pop() or 0
    assert writer.acknowledged <= value <= writer.sent, f"{value} is not from {writer.acknowledged} to {writer.sent}"
    return value


def main():
    kills = int(os.environ.get("STATESTORE_DAPR_KILLS", "10"))
    seed = random.randrange(2**32)
    print(f"killing daprd {kills} times, seed {seed}", flush=True)
    chance = random.Random(seed)
    begun = time.monotonic()
    in_the_middle = 0
    with Processes() as processes:
        _, port = processes.statestored("--storage", "memory")
        processes.serve("statestore")
        # Another daprd does not know of the component what the one before told it, but tells it the same.
        store = component("store", "statestore", url=f"mqtt://127.0.0.1:{port}", keyPrefix="none")
        writers = [Writer(None, f"writer{number}", 0) for number in range(WRITERS)]
        for kill in range(kills + 1):
            with Processes() as short_lived:
                short_lived.sockets = processes.sockets
                api = short_lived.daprd(os.environ["DAPRD"], [store])
                values = [check(api, writer) for writer in writers]
                in_the_middle += sum(writer.sent > writer.acknowledged for writer in writers)
                if kill == kills:
                    break
                writers = [Writer(api, writer.name_of_keys, value) for writer, value in zip(writers, values)]
                for writer in writers:
                    writer.start()
                # When it is killed, not how long it takes.
                time.sleep(chance.uniform(0.0, 0.06))
                api.process.kill()
                for writer in writers:
                    writer.join()
                    assert writer.problem is None, writer.problem
            if (kill + 1) % 100 == 0:
                print(f"{kill + 1} kills", flush=True)
    assert in_the_middle > 0, "no transaction was under way when daprd was killed"
    print(
        f"{kills} kills in {time.monotonic() - begun:.0f} s, {sum(values)} transactions, "
        f"{in_the_middle} under way when daprd was killed: each of them whole or not there"
    )


if __name__ == "__main__":
    check_environment("DAPRD", "STATESTORED", "STATESTORE_DAPR")
    sys.exit(main())
