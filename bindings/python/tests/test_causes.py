"""Errors say what is behind them: numbers of the system, causes, and advice."""

import errno
import pickle
import socket
import threading
import traceback

import pytest

import statestore
from statestore import aio


@pytest.fixture
def free_port():
    """A port that refuses connections: it is bound, and does not listen."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def refused(face, url, **settings):
    with pytest.raises(statestore.StateStoreError) as raised:
        face.run(face.module.connect(url, **settings))
    return raised.value


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_has_the_error_of_the_system(host, face, free_port):
    error = refused(face, f"mqtt://{host}:{free_port}")
    assert type(error) is statestore.HostRefusedError
    assert isinstance(error, statestore.UnreachableError) and isinstance(error, ConnectionRefusedError)
    assert (error.kind, error.errno) == ("Unreachable", errno.ECONNREFUSED)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.errno) == (type(error), str(error), error.errno)
    assert isinstance(error.__cause__, ConnectionRefusedError)
    assert error.__cause__.errno == errno.ECONNREFUSED
    assert "onnection refused" in str(error)


def test_a_broker_that_refuses_the_client_is_no_refused_connection(face):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with listener.accept()[0] as connection:
                connection.recv(4096)
                # CONNACK: server unavailable.
                connection.sendall(b"\x20\x03\x00\x88\x00")
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        error = refused(face, f"mqtt://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert type(error) is statestore.ConnectionRefusedError is statestore.BrokerRefusedError
    assert isinstance(error, ConnectionError)
    assert not isinstance(error, ConnectionRefusedError)


def test_a_missing_file_has_the_error_of_the_system(face, free_port):
    error = refused(face, f"mqtt://127.0.0.1:{free_port}", user_name="me", password_file="/no/such", allow_plaintext_credentials=True)
    assert isinstance(error.__cause__, FileNotFoundError)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server is on this port"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "speaks TLS on this port, and not plain MQTT; use mqtts://"),
        (b"\x20\x02\x00\x01", "speaks MQTT 3.1.1, and not MQTT 5"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak MQTT 5 on this port"),
    ],
)
def test_another_protocol_is_named(answer, text, face):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with listener.accept()[0] as connection:
                connection.recv(1)
                connection.sendall(answer)
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        error = refused(face, f"mqtt://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert isinstance(error, statestore.ConnectionRefusedError)
    assert not isinstance(error, ConnectionRefusedError)
    assert text in str(error)


@pytest.mark.parametrize("url", ["localhost", "localhost:1883", "broker.example"])
def test_a_url_without_a_scheme_gets_advice(url):
    with pytest.raises(statestore.InvalidSettingsError, match="write mqtt://host:port"):
        statestore.connect(url)


@pytest.mark.parametrize("client", [statestore.Client, aio.Client])
def test_the_class_of_clients_names_connect(client):
    for arguments in ((), ("mqtt://localhost",)):
        with pytest.raises(TypeError, match=r"statestore\.connect\(url\)"):
            client(*arguments)


def test_classes_have_the_names_that_programs_use(face, free_port):
    error = refused(face, f"mqtt://127.0.0.1:{free_port}")
    assert traceback.format_exception_only(type(error), error)[0].startswith("statestore.HostRefusedError: ")
    for cls in (statestore.StateStoreError, *statestore.StateStoreError.__subclasses__()):
        assert cls.__module__ == "statestore"
        assert type(pickle.loads(pickle.dumps(cls("text")))) is cls
    assert [name for name in dir(aio) if name not in aio.__all__] == []
