"""Connecting in the background, and TLS material from memory."""

import socket
import subprocess

import pytest
from conftest import HANG_TIMEOUT

import statestore
from statestore.testing import Server

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def wait_for_state(face, client, kind):
    while client.state().kind != kind:
        face.turn()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_lazy_client_is_there_before_its_server(face, start_server):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    client = face.run(face.module.connect(f"mqtt://127.0.0.1:{port}", lazy=True, request_timeout=HANG_TIMEOUT))
    # The first attempt reaches a listener that hangs up.
    listener.accept()[0].close()
    listener.close()
    start_server("--listen", f"tcp://127.0.0.1:{port}")
    assert face.run(client.set("key", "v")).applied
    assert client.state().kind == "connected"
    face.run(client.close())


def test_a_lazy_client_reports_failures(face):
    client = face.run(face.module.connect(f"mqtt://127.0.0.1:{free_port()}", lazy=True, fail_fast=True))
    wait_for_state(face, client, "reconnecting")
    assert isinstance(client.state().reason, statestore.UnreachableError)
    with pytest.raises(statestore.UnreachableError):
        face.run(client.get("key"))
    face.run(client.close())


def test_the_limit_of_connecting_ends_a_lazy_client(face):
    client = face.run(face.module.connect(f"mqtt://127.0.0.1:{free_port()}", lazy=True, connect_limit=0))
    wait_for_state(face, client, "closed")
    with pytest.raises(statestore.ClosedError):
        face.run(client.get("key"))
    face.run(client.close())


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=HANG_TIMEOUT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an authority (``ca``) and a certificate that it signed (``end``)."""
    folder = tmp_path_factory.mktemp("certificates")
    names = folder / "names"
    names.write_text("basicConstraints=critical,CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("req", "-x509", *KEY, "-keyout", folder / "ca.key", "-out", folder / "ca.pem", "-days", 2, "-subj", "/CN=authority")
    openssl("req", "-new", *KEY, "-keyout", folder / "end.key", "-out", folder / "end.csr", "-subj", "/CN=end")
    openssl(
        *("x509", "-req", "-in", folder / "end.csr", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial"),
        *("-days", 2, "-extfile", names, "-out", folder / "end.pem"),
    )
    return folder


@pytest.mark.parametrize("read", ["read_text", "read_bytes"])
def test_certificates_and_key_from_memory(face, folder, read):
    certificate, key, authority = (folder / name for name in ("end.pem", "end.key", "ca.pem"))
    port = free_port()
    server = Server(
        *("--listen", "tcp://127.0.0.1:0", "--listen", f"tls://127.0.0.1:{port}", "--tls-cert", str(certificate), "--tls-key", str(key)),
        *("--tls-client-ca", str(authority), "--allow-anonymous"),
    )
    with server:
        given = {"ca_pem": authority, "cert_pem": certificate, "key_pem": key}
        settings = {name: getattr(path, read)() for name, path in given.items()}
        client = face.run(face.module.connect(f"mqtts://127.0.0.1:{port}", **settings))
        assert face.run(client.set("key", "v")).applied
        assert "PRIVATE KEY" not in repr(client)
        face.run(client.close())


@pytest.mark.parametrize("name", ["ca", "cert", "key"])
def test_material_is_a_file_or_text_and_not_both(face, name):
    both = {f"{name}_file": "file.pem", f"{name}_pem": "text"}
    with pytest.raises(ValueError, match=name):
        face.run(face.module.connect("mqtts://localhost", **both))
    with pytest.raises(TypeError, match=f"{name}_pem must be str or bytes, not int"):
        face.run(face.module.connect("mqtts://localhost", **{f"{name}_pem": 7}))
