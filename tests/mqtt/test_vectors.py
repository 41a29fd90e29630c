"""The golden vectors of the protocol, sent to a whole server."""

import json
from pathlib import Path

import pytest

from store import REQUEST, array, read_page, timestamp, user_properties

VECTORS = Path(__file__).parent.parent / "vectors"


def vectors(name):
    return json.loads((VECTORS / f"{name}.json").read_text())


def raw(text):
    """The bytes that a string of the vectors stands for."""
    return text.encode("latin-1")


def test_every_request_payload_is_answered_as_in_the_vectors(open_store):
    store = open_store()
    cases = vectors("requests")["payloads"]
    assert any("error" in case["decode"] for case in cases)
    for case in cases:
        response = store.request(raw(case["payload"]))
        assert user_properties(response)["__stat"] == "200", case["name"]
        error = case["decode"].get("error")
        if case["decode"].get("token") is not None:
            error = "syntax error"  # well-formed, but not a token that this server gave
        if error:
            assert response.payload == b"-ERR %s\r\n" % raw(error), case["name"]
        else:
            assert not response.payload.startswith(b"-ERR"), case["name"]
    assert store.reply("SET", "key", "value") == b"+OK\r\n", "the connection lives on"


def test_every_malformed_timestamp_is_refused(open_store):
    store = open_store()
    cases = [case for case in vectors("hlc")["texts"] if "error" in case["decode"]]
    assert cases
    for case in cases:
        text = raw(case["text"])
        try:
            text = text.decode()
        except UnicodeDecodeError:
            continue  # cannot be an MQTT string
        refused = b"-ERR malformed timestamp\r\n"
        assert store.reply("SET", "key", "value", ts=text) == refused, case["name"]
        assert store.reply("SET", "key", "value", fence=text) == refused, case["name"]
    assert store.reply("GET", "key") == b"$-1\r\n"


def test_every_pattern_scans_its_matches(open_store):
    store = open_store()
    for case in vectors("glob")["patterns"]:
        keys = {raw(key) for key in case["matches"] + case["differs"]} - {b""}
        for key in keys:
            assert store.reply("SET", key, "") == b"+OK\r\n"
        found, token = read_page(store.reply("SCAN", raw(case["pattern"])))
        assert sorted(found) == sorted(raw(key) for key in case["matches"] if key), case["pattern"]
        assert not token
        for key in keys:
            assert store.reply("DEL", key) == b":1\r\n"


@pytest.mark.parametrize("case", [case for case in vectors("topics")["forbidden_response"] if case["topic"]], ids=lambda case: case["topic"])
def test_response_topics_are_forbidden_as_in_the_vectors(connect, open_store, case):
    client = connect("client")
    request = {
        "ResponseTopic": case["topic"],
        "CorrelationData": b"c",
        "UserProperty": [("__ts", timestamp())],
    }
    payload = array("SET", "key", "value")
    if case["forbidden"]:
        client.send(REQUEST, payload, **request)
        assert client.ended() >= 0x80
        assert open_store().reply("GET", "key") == b"$-1\r\n"
    else:
        assert client.publish(REQUEST, payload, **request) == 0
        assert open_store().reply("GET", "key") == b"$5\r\nvalue\r\n"
