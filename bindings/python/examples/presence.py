"""Presence: each gateway announces itself by a key that expires unless it is renewed.

    python presence.py NAME    announces the gateway NAME until Ctrl-C
    python presence.py         prints the gateways that are present

It uses asyncio. STATESTORE_URL is the address of the server.
"""

from __future__ import annotations

import asyncio
import os
import sys

import statestore
from statestore import aio

EXPIRES_IN = 3.0  # seconds; three announcements may fail before the gateway counts as gone


async def announce(client: aio.Client[str], name: str) -> None:
    key = f"gateways/{name}"
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


async def show(client: aio.Client[str]) -> None:
    keys = sorted([key async for key in client.scan("gateways/*")])
    for key, entry in zip(keys, await client.get_many(keys)):
        # A key may expire between the two calls.
        if entry is not None:
            print(f"{key.removeprefix('gateways/')}: {entry.value}")


async def main() -> None:
    url = os.environ.get("STATESTORE_URL", "mqtt://127.0.0.1:1883")
    async with aio.connect(url, encoding="utf-8") as client:
        if len(sys.argv) > 1:
            await announce(client, sys.argv[1])
        else:
            await show(client)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    except statestore.StateStoreError as error:
        sys.exit(f"{error.kind}: {error}")
