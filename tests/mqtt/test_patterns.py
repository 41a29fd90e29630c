"""Watches of patterns: rights, limits and the end of the connection."""

import signal

from store import Store, array, notification_topic, user_properties

POLICY = """
rules:
- principals: {usernames: [reader]}
  brokerResources: [{method: Connect}, {method: Subscribe, topics: ['#']}]
  stateStoreResources: [{method: Read, keys: [%s]}]
- principals: {usernames: [writer]}
  brokerResources: [{method: Connect}, {method: Subscribe, topics: ['#']}]
  stateStoreResources: [{method: ReadWrite, keys: ['*']}]
"""
RESYNC = b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nRESYNC\r\n"
QUOTA = b"-ERR the quota has been exceeded\r\n"


def test_rights_are_checked_for_each_key_and_again_after_a_reload(start, connect, tmp_path):
    policy, users = tmp_path / "policy.yaml", tmp_path / "users"
    policy.write_text(POLICY % "'a/*'")
    users.write_text("reader:secret\nwriter:secret\n")
    server = start("--policy-file", str(policy), "--users-file", str(users))

    def store(user):
        return Store(connect(user, to=server, user=user, password="secret"))

    def is_notified_only_of(key):
        given = {it: user_properties(writer.request(array("SET", it, "value")))["__ts"] for it in ("a/1", "b/1", "c/1")}
        message = reader.notification()
        assert message.topic == notification_topic("reader", key.encode())
        assert user_properties(message)["__ts"] == given[key]

    reader, writer = store("reader"), store("writer")
    assert reader.reply("KEYNOTIFY", "*", "MATCH") == b"+OK\r\n"
    assert reader.reply("KEYNOTIFY", "c*", "MATCH") == b"+OK\r\n", "nothing shows that no such key may be read"
    for _ in range(2):
        is_notified_only_of("a/1")
    policy.write_text(POLICY % "'b/*'")
    server.process.send_signal(signal.SIGHUP)
    told = {message.topic: message.payload for message in (reader.notification(), reader.notification())}
    assert told == {notification_topic("reader", pattern): RESYNC for pattern in (b"*", b"c*")}
    for _ in range(2):
        is_notified_only_of("b/1")
    assert reader.reply("GET", "a/1") == b"-ERR not authorized\r\n", "the connection lives on"
    assert reader.notifications() == []


def test_patterns_are_limited(start, connect):
    server = start("--max-watches", "40")
    first, second = Store(connect("first", to=server)), Store(connect("second", to=server))
    for number in range(32):
        assert first.reply("KEYNOTIFY", f"*{number}", "MATCH") == b"+OK\r\n"
    assert first.reply("KEYNOTIFY", "*", "MATCH") == QUOTA, "they begin with a wildcard"
    assert second.reply("KEYNOTIFY", "?", "MATCH") == QUOTA, "the clients have the same user"
    assert second.reply("KEYNOTIFY", "*1", "MATCH") == b"+OK\r\n", "it is compared already"
    for number in range(6):
        assert first.reply("KEYNOTIFY", f"{number}*", "MATCH") == b"+OK\r\n"
    assert first.reply("KEYNOTIFY", "key") == b"+OK\r\n"
    assert second.reply("KEYNOTIFY", "k*", "MATCH") == QUOTA, "all have as many watches as there may be"
    assert first.reply("KEYNOTIFY", "*0", "MATCH", "STOP") == b"+OK\r\n"
    assert second.reply("KEYNOTIFY", "k*", "MATCH") == b"+OK\r\n"


def test_watches_of_patterns_end_with_the_connection(open_store):
    store = open_store("watcher", session_expiry=60)
    assert store.reply("KEYNOTIFY", "k*", "MATCH") == b"+OK\r\n"
    store.peer.cut()
    assert open_store("writer").reply("SET", "key", "value") == b"+OK\r\n"
    store = open_store("watcher", session_expiry=60, clean_start=False)
    assert store.peer.session_present
    assert store.reply("KEYNOTIFY", "k*", "MATCH", "STOP") == b":0\r\n"
    assert store.notifications() == []
