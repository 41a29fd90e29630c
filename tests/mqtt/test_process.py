"""The process: its options, its end, and what survives it."""

import signal
import subprocess

import pytest

from server import HANG_TIMEOUT, binary
from store import array, timestamp, user_properties


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(start, connect, how):
    server = start()
    client = connect("client", to=server)
    assert server.end(how) == 0
    assert client.ended() == 0x8B, "server shutting down"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_acknowledged_changes_survive_a_restart(start, open_store, tmp_path, how):
    options = ("--data-dir", str(tmp_path / "data"))
    server = start(*options)
    store = open_store(to=server)
    token = timestamp()
    before = user_properties(store.request(array("SET", "key", "value"), fence=token))["__ts"]
    assert store.reply("SET", "expiring", "value", "PX", "3600000") == b"+OK\r\n"
    assert store.reply("SET", "deleted", "value") == b"+OK\r\n"
    assert store.reply("DEL", "deleted") == b":1\r\n"
    server.end(how)

    store = open_store(to=start(*options))
    got = store.request(array("GET", "key"))
    assert got.payload == b"$5\r\nvalue\r\n"
    assert user_properties(got)["__ts"] == before
    assert store.reply("GET", "expiring") == b"$5\r\nvalue\r\n"
    assert store.reply("GET", "deleted") == b"$-1\r\n"
    assert store.reply("SET", "key", "other") == b"-ERR a fencing token is required for this request\r\n"
    after = user_properties(store.request(array("SET", "key", "other"), fence=token))["__ts"]
    assert before < after


def test_a_key_that_expires_while_it_is_down_is_gone(start, open_store, tmp_path):
    options = ("--data-dir", str(tmp_path / "data"))
    server = start(*options)
    assert open_store(to=server).reply("SET", "key", "value", "PX", "1") == b"+OK\r\n"
    server.end(signal.SIGKILL)
    assert open_store(to=start(*options)).reply("GET", "key") == b"$-1\r\n"


@pytest.mark.parametrize(
    "options",
    [
        ["--listen", "nonsense"],
        ["--listen", "tcp://127.0.0.1:99999"],
        ["--storage", "nonsense"],
        ["--max-keys", "many"],
        ["--nonsense"],
    ],
)
def test_bad_options_are_refused_in_a_few_lines(options):
    ended = subprocess.run([binary(), *options], capture_output=True, text=True, timeout=HANG_TIMEOUT)
    assert ended.returncode not in (0, 101)
    assert ended.stdout == ""
    assert ended.stderr and "panicked" not in ended.stderr


def test_a_port_in_use_is_named(start):
    server = start()
    listen = f"tcp://127.0.0.1:{server.port}"
    ended = subprocess.run(
        [binary(), "--storage", "memory", "--listen", listen], capture_output=True, text=True, timeout=HANG_TIMEOUT
    )
    assert ended.returncode not in (0, 101)
    assert f"127.0.0.1:{server.port}" in ended.stderr


def test_two_processes_never_share_a_data_directory(start, tmp_path):
    data = str(tmp_path / "data")
    start("--data-dir", data)
    ended = subprocess.run(
        [binary(), "--data-dir", data, "--listen", "tcp://127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=HANG_TIMEOUT,
    )
    assert ended.returncode not in (0, 101)
    assert "listening" not in ended.stdout
    assert data in ended.stderr
