"""An asyncio service: HTTP in front, the state store behind, one client for all requests.

    python service.py [URL] [--once]

    GET  /keys/NAME    the value
    PUT  /keys/NAME    stores the body
    POST /parts        counts one more part

It uses `asyncio.start_server`, so that it needs nothing else. With FastAPI the client is made and closed in the same way, in
the application's `lifespan`, and the handlers are the methods of `Service`.
"""

from __future__ import annotations

import argparse
import asyncio
import urllib.request
from http import HTTPStatus

from statestore import Entry, StateStoreError, aio

Answer = tuple[HTTPStatus, bytes]


class Service:
    def __init__(self, client: aio.Client) -> None:
        self.client = client

    async def get(self, key: str) -> Answer:
        entry = await self.client.get(key)
        return (HTTPStatus.OK, entry.value) if entry else (HTTPStatus.NOT_FOUND, b"")

    async def put(self, key: str, body: bytes) -> Answer:
        outcome = await self.client.set(key, body)
        return HTTPStatus.OK, str(outcome.version).encode()

    async def count(self) -> Answer:
        def one_more(old: Entry[bytes] | None) -> str:
            return str(int(old.value if old else 0) + 1)

        await self.client.update("parts", one_more)
        return await self.get("parts")

    async def answer(self, method: str, path: str, body: bytes) -> Answer:
        key = path.removeprefix("/keys/")
        try:
            if method == "GET" and key != path:
                return await self.get(key)
            if method == "PUT" and key != path:
                return await self.put(key, body)
            if (method, path) == ("POST", "/parts"):
                return await self.count()
        except ValueError as error:
            return HTTPStatus.BAD_REQUEST, str(error).encode()
        except StateStoreError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, str(error).encode()
        return HTTPStatus.NOT_FOUND, b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request for each connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *fields = head.splitlines()
        method, path, _ = first.split(" ", 2)
        length = 0
        for field in fields:
            name, _, value = field.partition(":")
            if name.lower() == "content-length":
                length = int(value)
        status, body = await self.answer(method, path, await reader.readexactly(length))
        writer.write(f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode())
        writer.write(f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


def visit(base: str) -> None:
    """What a browser would do."""
    for method, path, body in [
        ("PUT", "/keys/greeting", b"hello"),
        ("GET", "/keys/greeting", None),
        ("POST", "/parts", b""),
        ("POST", "/parts", b""),
    ]:
        request = urllib.request.Request(base + path, data=body, method=method)
        with urllib.request.urlopen(request) as response:
            print(method, path, response.status, response.read().decode())


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?", default="mqtt://127.0.0.1:1883")
    parser.add_argument("--once", action="store_true", help="visit it, and end")
    arguments = parser.parse_args()
    async with aio.connect(arguments.url) as client:
        server = await asyncio.start_server(Service(client).serve, "127.0.0.1", 0 if arguments.once else 8080)
        host, port = server.sockets[0].getsockname()
        print(f"http://{host}:{port}/keys/greeting", flush=True)
        async with server:
            if arguments.once:
                await asyncio.to_thread(visit, f"http://{host}:{port}")
            else:
                await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
