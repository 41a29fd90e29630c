"""`statestore.testing`, as other projects use it in their tests."""

import contextlib
import socket
import subprocess
import sys
import textwrap

import pytest

import statestore
from statestore.testing import Server, ServerNotFound, find_server

pytest_plugins = ["pytester"]


def test_the_fixtures_are_registered(pytester):
    pytester.makepyfile(
        """
        import statestore

        def test_one(statestore_server):
            with statestore.connect(statestore_server.url) as client:
                client.set("key", "value")

        def test_two(statestore_client):
            assert statestore_client.get("key") is None
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


@pytest.fixture
def without_server(pytester, monkeypatch):
    """A test that needs a server where there is none."""
    monkeypatch.delenv("STATESTORED", raising=False)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("PATH", str(pytester.path))
    pytester.makepyfile(
        """
        import sysconfig
        import pytest

        @pytest.fixture(autouse=True)
        def not_installed(monkeypatch):
            monkeypatch.setattr(sysconfig, "get_path", lambda _: "/nonexistent")

        def test_one(not_installed, statestore_server):
            pass
        """
    )
    return pytester


@pytest.mark.parametrize("ci", [None, "", "false", "0"])
def test_without_a_server_the_tests_are_skipped(without_server, monkeypatch, ci):
    if ci is not None:
        monkeypatch.setenv("CI", ci)
    result = without_server.runpytest_subprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*set STATESTORED*"])


def test_without_a_server_the_tests_fail_in_ci(without_server, monkeypatch):
    monkeypatch.setenv("CI", "true")
    result = without_server.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*set STATESTORED*"])


def test_the_fixture_for_asyncio(pytester):
    pytester.makepyfile(
        """
        import asyncio

        def test_one(statestore_aio_connect):
            async def main():
                async with statestore_aio_connect() as client, statestore_aio_connect(encoding="utf-8") as other:
                    await client.set("key", "value")
                    return (await other.get("key")).value

            assert asyncio.run(main()) == "value"
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_wrong_path_is_an_error(monkeypatch):
    monkeypatch.setenv("STATESTORED", "/nonexistent/statestored")
    with pytest.raises(FileNotFoundError, match="STATESTORED"):
        find_server()


def test_it_is_found_on_the_path(monkeypatch, tmp_path):
    binary = find_server()
    monkeypatch.delenv("STATESTORED", raising=False)
    (tmp_path / "statestored").symlink_to(binary)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_server().resolve() == binary.resolve()


def test_a_server_reports_invalid_options():
    with pytest.raises(RuntimeError, match="--no-such-option") as raised:
        Server("--no-such-option")
    # What the server wrote to its standard error, not only our command line.
    command, *said = str(raised.value).splitlines()
    assert "ended with 2" in command and any("--no-such-option" in line for line in said)


def test_servers_share_nothing():
    with Server() as one, Server() as other:
        with statestore.connect(one.url) as client:
            client.set("key", "value")
        with statestore.connect(other.url) as client:
            assert client.get("key") is None
    with pytest.raises(ConnectionError):
        statestore.connect(one.url)
    assert issubclass(ServerNotFound, RuntimeError)


def test_a_server_restarts_on_its_port():
    with Server() as first:
        port = first.port
    with Server("--listen", f"tcp://127.0.0.1:{port}") as again:
        assert again.port == port
        with statestore.connect(again.url) as client:
            assert client.get("key") is None


def test_a_server_with_a_disk(tmp_path):
    for expected in (None, b"value"):
        with Server("--data-dir", str(tmp_path)) as server, statestore.connect(server.url) as client:
            entry = client.get("key")
            assert (entry and entry.value) == expected
            client.set("key", "value")


@pytest.mark.parametrize(
    "end",
    ["os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGTERM)", "os.abort()", "os._exit(0)", "sys.exit(0)"],
)
def test_a_server_ends_with_its_process(end):
    program = textwrap.dedent(
        f"""
        import os, signal, subprocess, sys
        from statestore.testing import Server

        servers = [Server(), Server()]
        # Neither a program that was started meanwhile nor a fork keeps them.
        other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=0)
        if os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        print(*(server.port for server in servers), flush=True)
        sys.stdin.readline()
        {end}
        """
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        ports = [int(port) for port in parent.stdout.readline().split()]
        assert len(ports) == 2
        connections = [socket.create_connection(("127.0.0.1", port), 30) for port in ports]
        parent.stdin.write("\n")
        parent.stdin.flush()
        for connection in connections:
            with connection, contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b"", "the server closes it when it ends"
