"""Presence: each gateway announces itself by a key that expires unless it is renewed.

    python presence.py NAME    announces the gateway NAME until Ctrl-C
    python presence.py         prints the present gateways, and each that comes or goes, until Ctrl-C

It uses asyncio. STATESTORE_URL is the address of the server.
"""

from __future__ import annotations

import asyncio
import os
import sys

import statestore
from statestore import aio

FOLDER = "gateways/"
EXPIRES_IN = 3.0  # seconds; three announcements may fail before the gateway counts as gone


async def announce(client: aio.Client[str], name: str) -> None:
    key = f"{FOLDER}{name}"
    try:
        while True:
            try:
                await client.set(key, f"process {os.getpid()}", expires_in=EXPIRES_IN, timeout=EXPIRES_IN)
                print(f"{name} is announced", flush=True)
            except statestore.StateStoreError as error:
                if not error.retryable:
                    raise
                print(f"{name} was not announced: {error}", file=sys.stderr, flush=True)
            await asyncio.sleep(EXPIRES_IN / 3)
    finally:
        # Ctrl-C cancels the task. The others see at once that the gateway is gone.
        await client.delete(key, timeout=EXPIRES_IN)


def print_present(key: str, value: str) -> None:
    print(f"{key.removeprefix(FOLDER)} is present: {value}", flush=True)


async def watch(client: aio.Client[str]) -> None:
    """Prints the gateways that are present, and then each that comes or goes."""
    async with client.mirror(f"{FOLDER}*") as gateways:
        # Subscribes first and reads then, so that no change between the two is missed.
        changes = gateways.changes()
        await gateways.synced()
        present = {key: entry.value for key, entry in gateways.snapshot().items()}
        for key in sorted(present):
            print_present(key, present[key])
        print(f"gateways present: {len(present)}", flush=True)
        async for change in changes:
            match change:
                case statestore.MatchSet(key=key, value=value):
                    # A renewal sets the same value again.
                    if present.get(key) != value:
                        present[key] = value
                        print_present(key, value)
                case statestore.MatchDeleted(key=key):
                    if present.pop(key, None) is not None:
                        print(f"{key.removeprefix(FOLDER)} is gone", flush=True)
                case _:
                    pass  # Changes may have been missed. The differences follow.
        if (error := gateways.error()) is not None:
            raise error


async def main() -> None:
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    async with aio.connect(url, encoding="utf-8") as client:
        if len(sys.argv) > 1:
            await announce(client, sys.argv[1])
        else:
            await watch(client)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    except statestore.StateStoreError as error:
        sys.exit(f"{error.kind}: {error}")
