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
