"""What statestored has besides the document's protocol, on the wire of a whole server."""

import json
import threading
from pathlib import Path

import engine
from store import array, notification_topic, timestamp, user_properties

CASES = json.loads((Path(__file__).parent.parent / "vectors" / "extensions.json").read_text())


def txn(*operations):
    """A TXN of operations that are written as words."""
    arguments = []
    for operation in operations:
        words = operation.split(" ")
        arguments += [str(len(words)), *words]
    return array("TXN", *arguments)


def version(store, key):
    return user_properties(store.request(array("GET", key)))["__ts"]


def versions(reply):
    """The versions that a transaction gave."""
    lines = reply.split(b"\r\n")
    assert lines[0].startswith(b"*") and not lines[1].startswith(b":"), reply
    return [line.decode() for line in lines if line.endswith(b":StateStore")]


def test_every_extension_is_answered_as_in_the_vectors(open_store):
    store = open_store()
    for case in CASES["requests"]:
        response = store.request(case["payload"].encode("latin-1"))
        assert user_properties(response)["__stat"] == "200", case["name"]
        error = case["decode"].get("error")
        if case["decode"].get("token"):
            error = "syntax error"  # No server made the token.
        if error:
            assert response.payload == b"-ERR %s\r\n" % error.encode(), case["name"]
        else:
            assert not response.payload.startswith(b"-ERR"), case["name"]
    assert store.reply("SET", "key", "value") == b"+OK\r\n", "the connection lives on"


def test_the_server_reports_its_capabilities(open_store):
    reply = open_store().reply("CAPS")
    most = engine.difference("most_operations")
    keys = engine.difference("most_read_keys")
    names = [("IFV", 1), ("PTTL", 1), ("TXN", most), ("EVENTUAL", 1), ("MGET", keys), ("VALUES", 1), ("MATCH", 1)]
    assert reply == b"*14\r\n" + b"".join(b"$%d\r\n%b\r\n:%d\r\n" % (len(name), name.encode(), number) for name, number in names)


def test_a_condition_on_a_version_has_one_winner(open_store):
    store, other = open_store(), open_store("other")
    store.reply("SET", "k", "1")
    first = version(store, "k")
    assert store.reply("SET", "k", "2", "IFV", first) == b"+OK\r\n"
    lost = other.request(array("SET", "k", "3", "IFV", first))
    assert lost.payload == b":-1\r\n"
    assert user_properties(lost)["__ts"] == version(store, "k")
    absent = other.request(array("DEL", "nothing", "IFV", first))
    assert absent.payload == b":-1\r\n" and "__ts" not in user_properties(absent)


def test_the_remaining_time_is_reported(open_store):
    store = open_store()
    store.reply("SET", "k", "v", "PX", "60000")
    value, left = store.reply("GET", "k", "PTTL").split(b":")
    assert value == b"*2\r\n$1\r\nv\r\n" and 0 < int(left) <= 60_000
    store.reply("SET", "k", "v")
    assert store.reply("GET", "k", "PTTL") == b"*2\r\n$1\r\nv\r\n:-1\r\n"


def test_an_eventual_read_is_not_older_than_an_earlier_reply_of_the_server(open_store):
    store, other = open_store(), open_store("other")
    assert other.reply("GET", "k", "EVENTUAL") == b"$-1\r\n"
    for number in range(50):
        value = b"%d" % number
        store.reply("SET", "k", value)
        assert other.reply("GET", "k", "EVENTUAL") == b"$%d\r\n%b\r\n" % (len(value), value)
    store.reply("SET", "k", "v", "PX", "60000")
    value, left = other.reply("GET", "k", "EVENTUAL", "PTTL").split(b":")
    assert value == b"*2\r\n$1\r\nv\r\n" and 0 < int(left) <= 60_000
    store.reply("DEL", "k")
    assert other.reply("GET", "k", "EVENTUAL") == b"$-1\r\n"


def test_entries_are_returned_in_the_order_of_the_keys(open_store):
    store = open_store()
    assert store.reply("SET", "a", "hello") == b"+OK\r\n"
    given = version(store, "a").encode()
    entry = b"*2\r\n$5\r\nhello\r\n$%d\r\n%b\r\n" % (len(given), given)
    response = store.request(array("MGET", "a", "none", "a"))
    assert response.payload == b"*2\r\n:0\r\n*3\r\n%b$-1\r\n%b" % (entry, entry)
    assert "__ts" not in user_properties(response)


def test_entries_beyond_a_mebibyte_are_omitted(open_store):
    store = open_store()
    value = "v" * 600_000
    for key in ("a", "b"):
        assert store.reply("SET", key, value) == b"+OK\r\n"
    for keys, omitted in [(("a", "b"), 1), (("none", "a", "b", "none"), 2), (("b",), 0)]:
        reply = store.reply("MGET", *keys)
        assert reply.startswith(b"*2\r\n:%d\r\n*%d\r\n" % (omitted, len(keys) - omitted)), keys


def test_a_page_has_entries_if_values_are_requested(open_store):
    store = open_store()
    assert store.reply("SET", "page", "hello") == b"+OK\r\n"
    given = version(store, "page").encode()
    entry = b"*4\r\n$4\r\npage\r\n$5\r\nhello\r\n$%d\r\n%b\r\n" % (len(given), given)
    assert store.reply("SCAN", "page", "VALUES") == b"*1\r\n*1\r\n" + entry + b":-1\r\n"
    assert store.reply("SET", "page", "hello", "PX", "60000") == b"+OK\r\n"
    *_, left, end = store.reply("SCAN", "page", "VALUES").split(b"\r\n")
    assert 0 < int(left.removeprefix(b":")) <= 60_000 and end == b""
    assert store.reply("SCAN", "none", "VALUES") == b"*1\r\n*0\r\n"


def test_a_transaction_is_atomic(open_store):
    store = open_store()
    done = store.request(txn("SET a 1", "SET b 1", "DEL c", "SET a 2"))
    given = versions(done.payload)
    assert len(given) == 3 and b"$-1\r\n" in done.payload and "__ts" not in user_properties(done)
    assert version(store, "a") == given[2] and given[2] > given[0]
    stale = store.request(txn("SET b 2", f"SET a 3 IFV {given[0]}"))
    assert stale.payload == b"*3\r\n:-1\r\n:1\r\n$32\r\n%s\r\n" % given[2].encode()
    assert store.reply("GET", "b") == b"$1\r\n1\r\n"
    token = f"FT {timestamp(node='lock')}"
    assert versions(store.request(txn(f"SET a 4 {token}", f"SET b 3 IFV {given[1]}")).payload)
    refused = store.request(txn("SET b 4", "SET a 5")).payload
    assert refused == b"*3\r\n:-1\r\n:1\r\n-ERR a fencing token is required for this request\r\n"
    assert store.reply("GET", "b") == b"$1\r\n3\r\n"


def test_each_change_of_a_transaction_is_a_notification_in_its_order(open_store):
    store, watcher = open_store(), open_store("watcher")
    store.reply("SET", "b", "0")
    for key in ("a", "b"):
        assert watcher.reply("KEYNOTIFY", key) == b"+OK\r\n"
    store.request(txn("SET a 1", "DEL b", "DEL b", "SET a 2", "SET b 3"))
    expected = [b"SET", b"DELETE", b"SET", b"SET"] if engine.difference("tells_steps") else [b"SET", b"SET"]
    told = [watcher.notification() for _ in expected]
    kinds = [message.payload.split(b"\r\n")[4] for message in told]
    assert kinds == expected
    assert version(store, "a") == user_properties(told[-2])["__ts"]
    assert version(store, "b") == user_properties(told[-1])["__ts"]


def test_no_client_sees_a_partial_transaction(open_store):
    """One client sets two keys together, another one reads them one after the other."""
    writer, reader = open_store(), open_store("reader")
    both = writer.request(txn("SET a 0", "SET b 0")).payload
    assert versions(both)
    done = threading.Event()

    def write():
        for number in range(1, 200):
            assert versions(writer.request(txn(f"SET a {number}", f"SET b {number}")).payload)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = 0
    while not done.is_set():
        a = int(reader.reply("GET", "a").split(b"\r\n")[1])
        b = int(reader.reply("GET", "b").split(b"\r\n")[1])
        assert a <= b, "what is read later is not older"
        pair = reader.reply("MGET", "a", "b").split(b"\r\n")
        assert pair[5] == pair[10], "both are read at one moment"
        seen += 1
    thread.join()
    assert seen > 0 and reader.reply("GET", "a") == b"$3\r\n199\r\n"


def kinds(messages):
    """Topic and operation of notifications."""
    return [(message.topic, message.payload.split(b"\r\n")[4].decode()) for message in messages]


def test_a_watch_of_a_pattern_notifies_of_each_change_once_and_in_order(open_store):
    store, watcher = open_store(), open_store("watcher")
    for pattern in ("line*", "*1", "line?"):
        assert watcher.reply("KEYNOTIFY", pattern, "MATCH") == b"+OK\r\n"
    assert watcher.reply("KEYNOTIFY", "line1", "MATCH") == b"+OK\r\n"
    assert watcher.reply("KEYNOTIFY", "line1") == b"+OK\r\n"
    topic = notification_topic("watcher", b"line1")
    for change in [*(("SET", "line1", b"%d" % number) for number in range(20)), ("DEL", "line1")]:
        assert store.reply("SET", "other", "value") == b"+OK\r\n"
        given = user_properties(store.request(array(*change)))["__ts"]
        message = watcher.notification()
        assert user_properties(message)["__ts"] == given
        assert kinds([message]) == [(topic, "DELETE" if change[0] == "DEL" else "SET")]
    assert watcher.notifications() == []


def test_a_watch_of_a_pattern_ends_with_stop(open_store):
    store, watcher = open_store(), open_store("watcher")
    assert watcher.reply("KEYNOTIFY", "k*", "MATCH", "STOP") == b":0\r\n"
    for pattern in ("k*", "?2"):
        assert watcher.reply("KEYNOTIFY", pattern, "MATCH") == b"+OK\r\n"
    assert watcher.reply("KEYNOTIFY", "k*", "STOP") == b":0\r\n", "the key k* is not watched"
    assert watcher.reply("KEYNOTIFY", "k*", "MATCH", "STOP") == b"+OK\r\n"
    for key in ("k1", "k2"):
        assert store.reply("SET", key, "value") == b"+OK\r\n"
    assert kinds([watcher.notification()]) == [(notification_topic("watcher", b"k2"), "SET")]
    assert watcher.reply("KEYNOTIFY", "?2", "MATCH", "STOP") == b"+OK\r\n"
    assert store.reply("SET", "k2", "value") == b"+OK\r\n"
    assert watcher.notifications() == []


def test_an_expiry_is_notified_to_watches_of_patterns(open_store):
    store = open_store()
    assert store.reply("KEYNOTIFY", "*", "MATCH") == b"+OK\r\n"
    assert store.reply("SET", "key", "value", "PX", "50") == b"+OK\r\n"
    topic = notification_topic("store", b"key")
    assert kinds([store.notification(), store.notification()]) == [(topic, "SET"), (topic, "DELETE")]


def test_the_state_and_all_later_changes_are_known_after_a_watch_and_a_scan(open_store):
    store, watcher = open_store(), open_store("watcher")
    changes = threading.Thread(target=lambda: [store.reply("SET", f"k{number % 7}", b"%d" % number) for number in range(60)])
    changes.start()
    assert watcher.reply("KEYNOTIFY", "k*", "MATCH") == b"+OK\r\n"
    # Each entry: its key, its value and its version, each behind its length, and the time.
    lines = watcher.reply("SCAN", "k*", "VALUES").split(b"\r\n")
    places = [at for at, line in enumerate(lines) if line.endswith(b":StateStore")]
    state = {lines[at - 4]: (lines[at], lines[at - 2]) for at in places}
    changes.join()
    expected = {b"k%d" % key: b"%d" % max(number for number in range(60) if number % 7 == key) for key in range(7)}
    while {key: value for key, (_, value) in state.items()} != expected:
        message = watcher.notification()
        key, given = bytes.fromhex(message.topic.rsplit("/", 1)[1]), user_properties(message)["__ts"].encode()
        if key not in state or state[key][0] < given:
            state[key] = (given, message.payload.split(b"\r\n")[8])
