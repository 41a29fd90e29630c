"""The state store by hand: bytes in, bytes out."""

import subprocess

import pytest

import engine
import server
from store import REQUEST, array, notification_topic, read_page, response_topic, timestamp, user_properties


def version(message):
    return user_properties(message).get("__ts")


def order(text):
    wall, counter, node = text.split(":")
    return int(wall), int(counter), node


def test_set_and_get_byte_by_byte(open_store):
    store = open_store()
    sent = timestamp()
    response = store.request(b"*3\r\n$3\r\nSET\r\n$7\r\nSETKEY2\r\n$6\r\nVALUE5\r\n", ts=sent)
    assert response.payload == b"+OK\r\n"
    assert (response.qos, response.retain) == (1, False)
    names = user_properties(response)
    assert names["__stat"] == "200"
    assert names["__protVer"] == "1.0"
    assert getattr(response.properties, "ContentType", "application/octet-stream") == "application/octet-stream"
    assert order(names["__ts"]) > order(sent)
    assert names["__ts"].endswith(":StateStore")
    assert [len(part) for part in names["__ts"].split(":")[:2]] == [15, 5], "padded"

    got = store.request(b"*2\r\n$3\r\nGET\r\n$7\r\nSETKEY2\r\n", ts=False)
    assert got.payload == b"$6\r\nVALUE5\r\n"
    assert version(got) == names["__ts"]


def test_every_reply_byte_by_byte(open_store):
    store = open_store()
    assert store.reply("GET", "key") == b"$-1\r\n"
    assert store.reply("DEL", "key") == b":0\r\n"
    assert store.reply("VDEL", "key", "value") == b":0\r\n"
    assert store.reply("SET", "key", "value") == b"+OK\r\n"
    assert store.reply("SET", "key", "value", "NX") == b":-1\r\n"
    assert store.reply("SET", "key", "other", "NEX") == b":-1\r\n"
    assert store.reply("SET", "key", "value", "NEX", "PX", "60000") == b"+OK\r\n"
    assert store.reply("SET", "key", "value", "PX", "60000", "NEX") == b"+OK\r\n"
    assert store.reply("VDEL", "key", "other") == b":-1\r\n"
    assert store.reply("SCAN", "*") == b"*1\r\n*1\r\n$3\r\nkey\r\n"
    assert store.reply("VDEL", "key", "value") == b":1\r\n"
    assert store.reply("SET", "key", "") == b"+OK\r\n"
    assert store.reply("GET", "key") == b"$0\r\n\r\n"
    assert store.reply("DEL", "key") == b":1\r\n"
    assert store.reply("SCAN", "*") == b"*1\r\n*0\r\n"
    assert store.reply("KEYNOTIFY", "key", "STOP") == b":0\r\n"
    assert store.reply("KEYNOTIFY", "key") == b"+OK\r\n"
    assert store.reply("KEYNOTIFY", "key") == b"+OK\r\n"
    assert store.reply("KEYNOTIFY", "key", "STOP") == b"+OK\r\n"


def test_which_responses_carry_a_version(open_store):
    store = open_store()
    first = version(store.request(array("SET", "key", "value")))
    refused = store.request(array("SET", "key", "value", "NX"))
    assert version(refused) == first
    assert version(store.request(array("GET", "absent"))) is None
    assert version(store.request(array("DEL", "absent"))) is None
    assert version(store.request(array("VDEL", "key", "other"))) is None
    assert version(store.request(array("KEYNOTIFY", "key"))) is None
    assert version(store.request(array("KEYNOTIFY", "key", "STOP"))) is None
    assert version(store.request(array("SCAN", "*"))) is None
    assert version(store.request(array("NONSENSE"))) is None
    assert version(store.request(array("DEL", "key"))) is not None


def test_timestamps_of_a_set(open_store):
    store = open_store()
    assert store.reply("SET", "key", "value", ts=False) == b"-ERR missing timestamp\r\n"
    skewed = store.reply("SET", "key", "value", ts=timestamp(120_000))
    assert skewed.startswith(b"-ERR the request timestamp is too far in the future;")
    assert store.reply("GET", "key") == b"$-1\r\n"
    ahead = timestamp(30_000)
    response = store.request(array("SET", "key", "value"), ts=ahead)
    assert response.payload == b"+OK\r\n"
    assert order(version(response)) > order(ahead)
    later = store.request(array("SET", "key", "value"), ts="1:0:unpadded")
    assert order(version(later)) > order(version(response))


def test_fencing(open_store):
    store = open_store()
    low, high = timestamp(0, "a"), timestamp(1000, "a")
    assert store.reply("SET", "key", "value", fence=high) == b"+OK\r\n"
    required = b"-ERR a fencing token is required for this request\r\n"
    lower = (
        b"-ERR the request fencing token is a lower version than the fencing token protecting the resource\r\n"
    )
    for request in [("SET", "key", "other"), ("DEL", "key"), ("VDEL", "key", "value")]:
        assert store.reply(*request) == required
        assert store.reply(*request, fence=low) == lower
        assert store.reply(*request, fence="nonsense") == b"-ERR malformed timestamp\r\n"
        skewed = store.reply(*request, fence=timestamp(120_000))
        assert skewed.startswith(b"-ERR the request fencing token timestamp is too far in the future;")
    assert store.reply("GET", "key") == b"$5\r\nvalue\r\n"
    assert store.reply("DEL", "key", fence=high) == b":1\r\n"
    assert store.reply("SET", "key", "free again") == b"+OK\r\n"


def test_the_quota_of_keys(start, open_store):
    if not engine.difference("counts"):
        # No server counts the entries of a shared storage.
        command = [server.binary(), *engine.options(), "--max-keys", "3"]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=server.HANG_TIMEOUT)
        assert refused.returncode != 0
        assert "--max-keys needs a local storage" in refused.stderr
        return
    store = open_store(to=start("--max-keys", "3"))
    for key in "abc":
        assert store.reply("SET", key, "value") == b"+OK\r\n"
    assert store.reply("SET", "d", "value") == b"-ERR the quota has been exceeded\r\n"
    assert store.reply("SET", "c", "another value") == b"+OK\r\n"
    assert store.reply("DEL", "a") == b":1\r\n"
    assert store.reply("SET", "d", "value") == b"+OK\r\n"


def test_a_scan_in_pages_returns_every_key_once(open_store):
    store = open_store()
    expected = {b"key/%04d/" % number + b"x" * 1000 for number in range(2000)}
    for key in expected:
        assert store.reply("SET", key, "") == b"+OK\r\n"
    keys, token, pages = [], [], 0
    while True:
        page, token = read_page(store.reply("SCAN", "key/*", *token))
        keys += page
        pages += 1
        if not token:
            break
    assert pages > 1
    assert len(keys) == len(expected) and set(keys) == expected


def test_notifications_come_without_a_subscription(connect, open_store):
    watcher, writer = open_store("client-id1", subscribes=False), open_store("writer")
    assert watcher.reply("KEYNOTIFY", "SOMEKEY") == b"+OK\r\n"
    set_version = version(writer.request(array("SET", "SOMEKEY", "abc")))
    del_version = version(writer.request(array("DEL", "SOMEKEY")))
    topic = "clients/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/636C69656E742D696431/command/notify/534F4D454B4559"
    for payload, expected in [
        (b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$3\r\nabc\r\n", set_version),
        (b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n", del_version),
    ]:
        message = watcher.notification()
        assert (message.topic, message.payload, message.qos) == (topic, payload, 1)
        assert version(message) == expected


@pytest.mark.parametrize("subscribed", ["exactly", "by wildcard", "twice"])
def test_a_subscribed_watcher_gets_one_copy(open_store, subscribed):
    store = open_store("watcher", subscribes=False)
    own = notification_topic("watcher", b"key")
    if subscribed != "by wildcard":
        assert store.peer.subscribe(own) == 1
    if subscribed != "exactly":
        assert store.peer.subscribe(own.rsplit("/", 1)[0] + "/+") == 1
    assert store.reply("KEYNOTIFY", "key") == b"+OK\r\n"
    assert store.reply("SET", "key", "value") == b"+OK\r\n"
    # Some brokers hand out the response first.
    assert [store.notification().topic, *(message.topic for message in store.notifications())] == [own]


def test_expiry_sends_the_delete_notification(open_store):
    store = open_store("watcher")
    assert store.reply("KEYNOTIFY", "key") == b"+OK\r\n"
    set_version = version(store.request(array("SET", "key", "value", "PX", "50")))
    change = store.notification()
    assert change.payload == b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$5\r\nvalue\r\n"
    assert version(change) == set_version
    change = store.notification()
    assert change.payload == b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n"
    assert order(version(change)) > order(set_version)
    assert store.reply("GET", "key") == b"$-1\r\n"


def test_watches_end_with_the_connection(open_store):
    store = open_store("watcher", session_expiry=60)
    assert store.reply("KEYNOTIFY", "key") == b"+OK\r\n"
    store.peer.cut()
    assert open_store("writer").reply("SET", "key", "value") == b"+OK\r\n"
    store = open_store("watcher", session_expiry=60, clean_start=False)
    assert store.peer.session_present
    assert store.reply("KEYNOTIFY", "key", "STOP") == b":0\r\n"
    assert store.notifications() == []


@pytest.mark.parametrize("missing", ["ResponseTopic", "CorrelationData"])
def test_a_request_that_cannot_be_answered_fails_in_its_puback(connect, open_store, missing):
    client = connect("client")
    properties = {"ResponseTopic": response_topic("client"), "CorrelationData": b"c"}
    del properties[missing]
    request = array("SET", "key", "value")
    reason = client.publish(REQUEST, request, UserProperty=[("__ts", timestamp())], **properties)
    assert reason >= 0x80
    assert open_store().reply("GET", "key") == b"$-1\r\n"
    assert client.publish(REQUEST, request, **properties) >= 0x80, "the connection lives on"


def test_a_request_of_qos_0_is_not_executed(open_store):
    store = open_store("client")
    store.peer.publish(
        REQUEST,
        array("SET", "key", "value"),
        qos=0,
        ResponseTopic=store.topic,
        CorrelationData=b"c",
        UserProperty=[("__ts", timestamp())],
    )
    assert store.reply("GET", "key") == b"$-1\r\n"


@pytest.mark.parametrize(
    "topic",
    [
        "clients/vendor/services/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke/response",
        "clients/76656E646F72/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke/response",
        "clients/vendor/statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke",
    ],
    ids=["Rust", "Go", ".NET"],
)
def test_response_topics_of_the_vendors_clients(connect, topic):
    client = connect("vendor")
    assert client.subscribe(topic) == 1
    properties = {"ResponseTopic": topic, "CorrelationData": b"c"}
    names = [("__ts", timestamp()), ("$partition", "vendor"), ("$high_priority", "")]
    assert client.publish(REQUEST, array("GET", "key"), UserProperty=names, **properties) == 0
    response = client.message()
    assert client.received() == []
    assert (response.topic, response.payload) == (topic, b"$-1\r\n")


def test_requests_are_not_delivered_to_other_clients(connect, open_store):
    spy = connect("spy")
    spy.subscribe("#")
    spy.subscribe(REQUEST)
    store = open_store()
    assert store.reply("SET", "key", "secret") == b"+OK\r\n"
    assert all(message.topic != REQUEST for message in spy.received())


def test_values_up_to_the_packet_limit(start, open_store):
    store = open_store(to=start("--max-packet-bytes", "1048576"))
    value = bytes(1_000_000)
    assert store.reply("SET", "key", value) == b"+OK\r\n"
    assert store.reply("GET", "key") == b"$1000000\r\n" + value + b"\r\n"


def test_a_key_of_a_mebibyte_is_refused_in_every_command(open_store):
    store = open_store()
    key = bytes(1 << 20)
    for request in [("SET", key, ""), ("GET", key), ("DEL", key), ("VDEL", key, ""), ("KEYNOTIFY", key)]:
        assert store.reply(*request).startswith(b"-ERR ")
    assert store.reply("SCAN", "*") == b"*1\r\n*0\r\n"
