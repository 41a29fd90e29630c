"""A lock around a machine: one program at a time moves the press.

    python machine_lock.py [STROKES]

Run it twice at once: the second program waits. Ctrl-C stops the press and releases the lock. STATESTORE_URL is the address of the
server.
"""

from __future__ import annotations

import os
import sys

import statestore


class Press:
    """A simulated machine. Leaving its block stops it."""

    def stroke(self, number: int, token: statestore.Hlc) -> None:
        # A real drive compares the token, and rejects one that is lower than the highest it has seen.
        print(f"stroke {number} with the token {token}", flush=True)

    def __enter__(self) -> Press:
        return self

    def __exit__(self, *_: object) -> None:
        print("the press stands still", flush=True)


def main() -> None:
    strokes = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    with statestore.connect(url) as client:
        print("waiting for the press", flush=True)
        # Leaving the block releases the lock, and raises LockLostError if it was lost.
        with client.lock("press-1/owner", duration=2, wait=30) as guard, Press() as press:
            for number in range(1, strokes + 1):
                press.stroke(number, guard.token)
                # The store rejects this write once a later holder has written the key.
                guard.set("press-1/strokes", str(number))
                # A stroke takes 0.2 seconds, unless the lock is lost before.
                if guard.lost(timeout=0.2):
                    break


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except statestore.StateStoreError as error:
        # LockHeldError: another program still uses the press. LockLostError: parts of the work may have run without the lock.
        sys.exit(f"{error.kind}: {error}")
