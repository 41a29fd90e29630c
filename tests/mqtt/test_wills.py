"""Wills: sent when a connection ends without a normal DISCONNECT, after their delay."""

import pytest

from peer import Refused, Will
from store import REQUEST, array


def test_a_cut_connection_sends_the_will(connect):
    watcher = connect("watcher")
    watcher.subscribe("wills/#")
    connect("dying", will=Will("wills/dying", b"gone")).cut()
    will = watcher.message()
    assert (will.topic, will.payload, will.qos, will.retain) == ("wills/dying", b"gone", 1, False)


def test_a_normal_disconnect_drops_the_will(connect):
    watcher = connect("watcher")
    watcher.subscribe("wills/#")
    connect("leaving", will=Will("wills/leaving", b"")).disconnect()
    connect("dying", will=Will("wills/dying", b"")).cut()
    assert watcher.message().topic == "wills/dying"
    assert watcher.received() == []


def test_a_disconnect_can_ask_for_the_will(connect):
    watcher = connect("watcher")
    watcher.subscribe("wills/#")
    connect("leaving", will=Will("wills/leaving", b"")).disconnect(code=0x04)
    assert watcher.message().topic == "wills/leaving"


def test_a_delayed_will_comes_after_an_undelayed_one(connect):
    watcher = connect("watcher")
    watcher.subscribe("wills/#")
    connect("slow", session_expiry=60, will=Will("wills/slow", b"", delay=3)).cut()
    connect("fast", session_expiry=60, will=Will("wills/fast", b"")).cut()
    assert [watcher.message().topic for _ in range(2)] == ["wills/fast", "wills/slow"]


def test_a_reconnect_in_time_drops_a_delayed_will(connect):
    watcher = connect("watcher")
    watcher.subscribe("wills/#")
    connect("back", session_expiry=60, will=Will("wills/back", b"", delay=3)).cut()
    connect("back", session_expiry=60, clean_start=False)
    # This one is cut later and has the same delay, so the other would come first.
    connect("gone", session_expiry=60, will=Will("wills/gone", b"", delay=3)).cut()
    assert watcher.message().topic == "wills/gone"
    assert watcher.received() == []


def test_the_end_of_a_session_sends_its_will_before_the_delay(connect):
    watcher = connect("watcher")
    watcher.subscribe("wills/#")
    connect("short", session_expiry=1, will=Will("wills/short", b"", delay=600)).cut()
    assert watcher.message().topic == "wills/short"


def test_a_takeover_sends_an_undelayed_will_and_drops_a_delayed_one(connect):
    watcher = connect("watcher")
    watcher.subscribe("wills/#")
    for name, delay in [("delayed", 1), ("undelayed", 0)]:
        connect(name, session_expiry=60, will=Will(f"wills/{name}", b"", delay=delay))
        connect(name, session_expiry=60, clean_start=False)
    assert watcher.message().topic == "wills/undelayed"
    connect("last", session_expiry=60, will=Will("wills/last", b"", delay=1)).cut()
    assert watcher.message().topic == "wills/last"
    assert watcher.received() == []


def test_a_will_cannot_be_a_request_to_the_store(connect):
    with pytest.raises(Refused) as refused:
        connect("dying", will=Will(REQUEST, array("SET", "key", "by a will")))
    assert refused.value.code == 0x90
