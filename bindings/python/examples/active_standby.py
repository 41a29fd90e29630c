"""An election: one program is active, the others stand by, and one of them takes over.

    python active_standby.py NAME [ROUNDS]

Start it twice with different names. The active program works until Ctrl-C, or for so many rounds. STATESTORE_URL is the address of
the server.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator

import statestore


def lead(leadership: statestore.Leadership[str], name: str, rounds: Iterator[int]) -> None:
    """Works until the rounds have ended or the lead is lost."""
    for number in rounds:
        # The store rejects this write once a later leader has written the key.
        leadership.guard.set("line-1/plan", f"round {number} of {name}")
        if leadership.guard.lost(timeout=0.5):
            return


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: active_standby.py NAME [ROUNDS]")
    name = sys.argv[1]
    rounds = iter(range(int(sys.argv[2]))) if len(sys.argv) > 2 else itertools.count()
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    with statestore.connect(url, encoding="utf-8") as client:
        election = client.election("line-1/active", duration=2)
        while True:
            try:
                print(f"{name} stands by", flush=True)
                # Leaving the block resigns, and raises LockLostError if the lead was lost.
                with election.campaign(name) as leadership:
                    print(f"{name} is active", flush=True)
                    lead(leadership, name, rounds)
                return
            except statestore.StateStoreError as error:
                if not error.retryable and not isinstance(error, statestore.LockLostError):
                    raise
                print(f"{name} is not active: {error}", file=sys.stderr)
                time.sleep(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except statestore.StateStoreError as error:
        sys.exit(f"{error.kind}: {error}")
