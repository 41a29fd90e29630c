"""A cache in front of something slow, shared by all processes and emptied by time.

python cache.py [URL] [--once]
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable
from typing import TypeVar

import statestore

T = TypeVar("T")


def cached(client: statestore.Client, seconds: float) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Keeps what a function returns, as JSON, for so many seconds."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        @functools.wraps(function)
        def call(argument: str) -> T:
            key = f"cache/{function.__name__}/{argument}"
            entry = client.get(key)
            if entry is not None:
                found: T = json.loads(entry.value)
                return found
            # One process computes it; the others wait for that, and find it.
            with client.lock(f"{key}/lock"):
                entry = client.get(key)
                if entry is not None:
                    found = json.loads(entry.value)
                    return found
                made = function(argument)
                client.set(key, json.dumps(made), expires_in=seconds)
                return made

        return call

    return decorate


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?", default="mqtt://127.0.0.1:1883")
    parser.add_argument("--once", action="store_true", help="keep what was read for half a second only")
    arguments = parser.parse_args()
    with statestore.connect(arguments.url) as client:

        @cached(client, 0.5 if arguments.once else 60.0)
        def read_plate(machine: str) -> dict[str, str]:
            time.sleep(0.2)  # a slow machine
            return {"machine": machine, "maker": "Contoso"}

        for _ in range(3):
            began = time.perf_counter()
            plate = read_plate("press-3")
            print(f"{plate} after {(time.perf_counter() - began) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
