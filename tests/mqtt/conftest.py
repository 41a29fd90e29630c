"""Each test has a server of its own; what a test opens is closed after it."""

import pytest

pytest.register_assert_rewrite("local_options", "access_options", "engine_options", "option_group", "drill")

import broker
import engine
import peer
from option_groups import Tools
from peer import Peer
from server import Server
from store import Store
from wire import Connection


# Faults of an engine need an engine; recordings need a server with a storage of its own, as they are made with one.
collect_ignore = ["test_recordings.py" if engine.STORAGE in ("etcd", "redis") else "test_engines.py"]
# These start servers over each storage by themselves.
if engine.STORAGE != "memory":
    collect_ignore += ["test_options.py", "test_reload.py", "test_metrics.py", "test_drills.py", "test_openapi.py"]
if engine.STORAGE != "etcd":
    collect_ignore.append("test_engine_drills.py")


def pytest_collection_modifyitems(items):
    if not broker.IS_BETWEEN:
        return
    for item in items:
        reason = broker.DIFFERS.get(item.name)
        if reason:
            # One that passes is no difference any more, and fails.
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture(autouse=True)
def _quick_failures(request, monkeypatch):
    """What has to fail waits for nothing for long."""
    if broker.IS_BETWEEN and request.node.name in broker.DIFFERS:
        monkeypatch.setattr(peer, "HANG_TIMEOUT", 2)


@pytest.fixture(scope="session", autouse=True)
def _engine():
    yield
    engine.end()


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """Certificates, keys, engines and brokers for groups of options."""
    tools = Tools(tmp_path_factory.mktemp("tools"))
    yield tools
    tools.end()


@pytest.fixture
def start():
    """Starts servers with the options given."""
    servers = []

    def start(*options):
        servers.append(Server(*options))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture
def server(start):
    return start()


@pytest.fixture
def connect(request):
    """Connects paho clients: ``connect(client_id, …)``, to the test's ``server`` unless ``to`` names another."""
    peers = []

    def connect(client_id, *, to=None, **options):
        port = (to or request.getfixturevalue("server")).port
        peers.append(Peer(port, client_id, **options))
        return peers[-1]

    yield connect
    for peer in peers:
        peer.end()


@pytest.fixture
def open_store(connect):
    """A store that is reached through a client of its own."""

    def open_store(client_id="store", *, subscribes=broker.IS_BETWEEN, **options):
        return Store(connect(client_id, **options), subscribes)

    return open_store


@pytest.fixture
def dial(request):
    """Opens plain TCP connections."""
    connections = []

    def dial(to=None):
        connections.append(Connection((to or request.getfixturevalue("server")).port))
        return connections[-1]

    yield dial
    for connection in connections:
        connection.close()
