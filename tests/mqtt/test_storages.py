"""What differs by where entries are: tests/vectors/storages.json says it, and docs/storage.md."""

import signal
from pathlib import Path

import pytest

import engine
from store import timestamp, user_properties, array

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "storage.md"
STORAGES = ["memory", "durable", "etcd", "redis"]
TOO_LARGE = b"-ERR the entry is larger than the 1400000 bytes that the storage accepts, including its metadata\r\n"


def cell(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value is None else value


def test_the_documentation_has_the_same_table():
    rows = [[cell(it["what"]), *(cell(it[storage]) for storage in STORAGES)] for it in engine.DIFFERENCES]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    assert table in DOCUMENT.read_text()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_state_after_all_servers_restart(start, open_store, how):
    options = engine.options()
    server = start(*options)
    store = open_store(to=server)
    token = timestamp()
    before = user_properties(store.request(array("SET", "key", "value"), fence=token))["__ts"]
    assert store.reply("SET", "expiring", "value", "PX", "3600000") == b"+OK\r\n"
    server.end(how)

    store = open_store(to=start(*options))
    if engine.difference("survivors") == "nothing":
        assert store.reply("GET", "key") == b"$-1\r\n"
        return
    got = store.request(array("GET", "key"))
    assert got.payload == b"$5\r\nvalue\r\n"
    assert user_properties(got)["__ts"] == before
    assert store.reply("GET", "expiring") == b"$5\r\nvalue\r\n"
    assert store.reply("SET", "key", "other") == b"-ERR a fencing token is required for this request\r\n"


def test_the_largest_values(open_store):
    store = open_store()
    most = engine.difference("largest_value")
    larger = b"v" * 1_500_000
    if most is None:
        assert store.reply("SET", "key", larger) == b"+OK\r\n"
        assert store.reply("GET", "key").endswith(larger + b"\r\n")
        return
    assert store.reply("SET", "key", larger) == TOO_LARGE
    assert store.reply("GET", "key") == b"$-1\r\n", "nothing was stored"
    assert store.reply("SET", "key", larger[:most]) == b"+OK\r\n"


def test_the_most_keys_of_a_read(open_store):
    store = open_store()
    most = engine.difference("most_read_keys")
    keys = [f"k{number}" for number in range(most)]
    assert store.reply("SET", "k0", "v") == b"+OK\r\n"
    version = user_properties(store.request(array("GET", "k0")))["__ts"].encode()
    entry = b"*2\r\n$1\r\nv\r\n$%d\r\n%b\r\n" % (len(version), version)
    assert store.reply("MGET", *keys) == b"*2\r\n:0\r\n*%d\r\n" % most + entry + b"$-1\r\n" * (most - 1)
    refused = store.reply("MGET", *keys, "more")
    assert refused.startswith(b"-ERR") and str(most).encode() in refused, refused


def test_the_most_operations_of_a_transaction(open_store):
    store = open_store()
    most = engine.difference("most_operations")

    def transaction(count):
        operations = [word for number in range(count) for word in ("3", "SET", f"k{number}", "v")]
        return store.reply("TXN", *operations)

    assert transaction(most).startswith(b"*%d\r\n" % most)
    refused = transaction(most + 1)
    assert refused.startswith(b"-ERR") and str(most).encode() in refused, refused
