import contextlib
import socket
import threading
from urllib.parse import urlsplit

import pytest
from faces import FACES

from statestore.testing import Server, find_server

HANG_TIMEOUT = 30  # seconds; no healthy step comes near it, so that a hang becomes a failure


@pytest.fixture(scope="session", autouse=True)
def _there_is_a_server():
    """A suite that skips everything would prove nothing."""
    find_server()


@pytest.fixture(params=FACES, ids=lambda face: face.name)
def face(request):
    with request.param() as face:
        yield face


@pytest.fixture
def connect(statestore_server, face):
    """Connects clients of the face; they are closed after the test."""
    clients = []

    def connect(**settings):
        clients.append(face.run(face.module.connect(statestore_server.url, **settings)))
        return clients[-1]

    yield connect
    for client in clients:
        face.run(client.close())


@pytest.fixture
def start_server():
    """Starts servers with options."""
    servers = []

    def start(*options):
        servers.append(Server(*options))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def plain_url(statestore_server):
    """Where the server does not understand what its extensions are asked for."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = urlsplit(statestore_server.url)

    def forward(source, target):
        # The other direction closes both.
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(1 << 16):
                target.sendall(data.replace(b"$4\r\nCAPS\r\n", b"$4\r\nNONE\r\n"))

    def serve():
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection((server.hostname, server.port))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=forward, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield f"mqtt://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


@pytest.fixture
def plain_client(face, plain_url):
    """A client of a store without extensions."""
    client = face.run(face.module.connect(plain_url))
    yield client
    face.run(client.close())
