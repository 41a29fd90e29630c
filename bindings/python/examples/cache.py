"""A cache in front of something slow, shared by all programs. Its entries expire by themselves.

    python cache.py [MACHINE]

Run it twice: the second run finds the value that the first run stored. STATESTORE_URL is the address of the server.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import statestore


def get_or_compute(client: statestore.Client[str], key: str, compute: Callable[[], str], expires_in: timedelta) -> str:
    """Returns the cached value of a key, or computes and stores it. Without the store, every call computes."""
    try:
        entry = client.get(key, timeout=1)
        if entry is not None:
            return entry.value
    except statestore.StateStoreError as error:
        print(f"the cache was not read: {error}", file=sys.stderr)
    value = compute()
    try:
        client.set(key, value, expires_in=expires_in, timeout=1)
    except statestore.StateStoreError as error:
        print(f"the cache was not written: {error}", file=sys.stderr)
    return value


def read_plate(machine: str) -> str:
    """Simulates a slow machine."""
    print(f"reading the plate of {machine}")
    time.sleep(0.2)
    return "Contoso 400"


def main() -> None:
    machine = sys.argv[1] if len(sys.argv) > 1 else "press-1"
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    with statestore.connect(url, encoding="utf-8") as client:
        for _ in range(3):
            plate = get_or_compute(client, f"cache/plate/{machine}", lambda: read_plate(machine), timedelta(minutes=1))
            print(f"{machine}: {plate}")


if __name__ == "__main__":
    try:
        main()
    except statestore.StateStoreError as error:
        sys.exit(f"{error.kind}: {error}")
