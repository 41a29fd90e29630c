"""`statestore.testing`, as the tests of somebody else use it."""

import pytest

import statestore
from statestore.testing import Server, ServerNotFound, find_server

pytest_plugins = ["pytester"]


def test_the_fixtures_are_there_by_themselves(pytester):
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


def test_without_a_server_the_tests_are_skipped(pytester, monkeypatch):
    monkeypatch.delenv("STATESTORED", raising=False)
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
    result = pytester.runpytest_subprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*set STATESTORED*"])


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


def test_a_server_says_what_is_wrong_with_its_options():
    with pytest.raises(RuntimeError, match="--no-such-option"):
        Server("--no-such-option")


def test_servers_share_nothing():
    with Server() as one, Server() as other:
        with statestore.connect(one.url) as client:
            client.set("key", "value")
        with statestore.connect(other.url) as client:
            assert client.get("key") is None
    with pytest.raises(ConnectionError):
        statestore.connect(one.url)
    assert issubclass(ServerNotFound, RuntimeError)


def test_a_server_with_a_disk(tmp_path):
    for expected in (None, b"value"):
        with Server("--data-dir", str(tmp_path)) as server, statestore.connect(server.url) as client:
            entry = client.get("key")
            assert (entry and entry.value) == expected
            client.set("key", "value")
