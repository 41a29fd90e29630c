"""Sessions that outlive their connections, and the takeover of one by another connection."""

import pytest

import store as protocol
import wire
from peer import Will


def test_messages_wait_for_an_absent_subscriber(connect):
    subscriber = connect("subscriber", session_expiry=60)
    assert not subscriber.session_present
    subscriber.subscribe("news/#")
    subscriber.disconnect()
    publisher = connect("publisher")
    for number in range(100):
        assert publisher.publish("news/today", b"%d" % number) == 0
    publisher.publish("news/today", b"not kept", qos=0)

    subscriber = connect("subscriber", session_expiry=60, clean_start=False)
    assert subscriber.session_present
    received = [subscriber.message() for _ in range(100)]
    assert [message.payload for message in received] == [b"%d" % number for number in range(100)]
    assert not any(message.dup for message in received)
    publisher.publish("news/now", b"the subscription is kept, too")
    assert subscriber.message().topic == "news/now"


def test_an_unacknowledged_message_comes_again(connect):
    subscriber = connect("subscriber", session_expiry=60, manual_ack=True)
    subscriber.subscribe("news")
    publisher = connect("publisher")
    publisher.publish("news", b"first")
    publisher.publish("news", b"second")
    first, second = subscriber.message(), subscriber.message()
    subscriber.acknowledge(first)
    subscriber.received()  # the server has seen the acknowledgement
    subscriber.cut()

    subscriber = connect("subscriber", session_expiry=60, clean_start=False, manual_ack=True)
    again = subscriber.message()
    assert (again.payload, again.dup, again.mid) == (b"second", True, second.mid)
    assert subscriber.received() == []


def test_a_clean_start_forgets_the_session(connect):
    subscriber = connect("subscriber", session_expiry=60)
    subscriber.subscribe("news")
    subscriber.disconnect()
    connect("publisher").publish("news", b"lost")
    subscriber = connect("subscriber", session_expiry=60, clean_start=True)
    assert not subscriber.session_present
    connect("another publisher").publish("news", b"not subscribed")
    assert subscriber.received() == []


def test_a_session_without_expiry_ends_with_its_connection(connect):
    connect("subscriber").disconnect()
    assert not connect("subscriber", clean_start=False).session_present


def test_a_disconnect_can_end_the_session(connect):
    connect("subscriber", session_expiry=60).disconnect(SessionExpiryInterval=0)
    assert not connect("subscriber", clean_start=False).session_present


def test_a_session_expires(connect):
    watcher = connect("watcher")
    watcher.subscribe("wills/#")
    short = connect("short", session_expiry=1, will=Will("wills/short", b"", delay=600))
    short.subscribe("news")
    short.cut()
    watcher.message()  # comes when the session ends, since that is before its delay
    assert not connect("short", clean_start=False).session_present


def test_an_expired_message_is_not_delivered(connect, open_store):
    subscriber = connect("subscriber", session_expiry=60)
    subscriber.subscribe("news")
    subscriber.disconnect()
    publisher = connect("publisher")
    publisher.publish("news", b"short", MessageExpiryInterval=1)
    publisher.publish("news", b"long", MessageExpiryInterval=100)
    # A key that ends after two seconds is the clock.
    store = open_store()
    assert store.reply("KEYNOTIFY", "clock") == b"+OK\r\n"
    assert store.reply("SET", "clock", "", "PX", "2100") == b"+OK\r\n"
    for _ in ["SET", "DELETE"]:
        store.notification()

    subscriber = connect("subscriber", session_expiry=60, clean_start=False)
    message = subscriber.message()
    assert message.payload == b"long"
    assert message.properties.MessageExpiryInterval <= 98
    assert subscriber.received() == []


def test_a_second_connection_takes_the_session_over(connect):
    first = connect("client", session_expiry=60)
    first.subscribe("news")
    second = connect("client", session_expiry=60, clean_start=False)
    assert first.ended() == 0x8E
    assert second.session_present
    connect("publisher").publish("news", b"to the second")
    assert second.message().payload == b"to the second"


def test_a_takeover_with_a_clean_start_starts_a_new_session(connect):
    first = connect("client", session_expiry=60)
    first.subscribe("news")
    second = connect("client", session_expiry=60)
    assert first.ended() == 0x8E
    assert not second.session_present
    connect("publisher").publish("news", b"not subscribed")
    assert second.received() == []


def test_a_takeover_ends_the_watches(connect, open_store):
    store = open_store("client", session_expiry=60)
    assert store.reply("KEYNOTIFY", "key") == b"+OK\r\n"
    store = open_store("client", session_expiry=60, clean_start=False)
    assert store.reply("SET", "key", "value") == b"+OK\r\n"
    assert store.reply("KEYNOTIFY", "key", "STOP") == b":0\r\n"
    assert store.notifications() == []


def test_a_response_waits_for_a_client_that_lost_its_connection(server, connect, dial):
    topic = protocol.response_topic("client")
    expiry = b"\x11\0\0\0\x3c"
    connection = dial()
    connection.send(wire.connect("client", properties=expiry), wire.subscribe(topic, 1))
    connection.expect(wire.CONNACK)
    connection.expect(wire.SUBACK)
    connection.send(wire.publish(protocol.REQUEST, protocol.array("SET", "key", "v"), 2, properties=request(topic, b"c")))
    # Neither PUBACK nor response is read: as far as the client knows, the request may be lost.
    witness = connect("witness")
    assert protocol.Store(witness).reply("KEYNOTIFY", "key") == b"+OK\r\n"
    connection.close()

    connection = dial()
    again = wire.publish(protocol.REQUEST, protocol.array("SET", "key", "v"), 2, dup=True, properties=request(topic, b"c"))
    connection.send(wire.connect("client", clean_start=False, properties=expiry), again)
    assert connection.expect(wire.CONNACK)[0] == 1, "session present"
    replies, acknowledged = [], False
    while not (replies and acknowledged):
        first, body = connection.read()
        if first & 0xF0 == wire.PUBLISH:
            replies.append(body)
        else:
            assert first == wire.PUBACK and body[:2] == b"\0\2"
            acknowledged = True
    assert all(reply.endswith(b"+OK\r\n") for reply in replies)


def request(topic, correlation, *more):
    """The properties of a request, in bytes."""
    made = b"\x08" + wire.binary(topic) + b"\x09" + wire.binary(correlation)
    for name, value in [("__ts", protocol.timestamp()), *more]:
        made += wire.user_property(name, value)
    return made


def response(body):
    """Packet id, ``__ts`` and payload of a response PUBLISH of QoS 1."""
    topic_end = 2 + int.from_bytes(body[:2])
    packet_id, length = body[topic_end : topic_end + 2], body[topic_end + 2]
    assert length < 128
    properties = body[topic_end + 3 : topic_end + 3 + length]
    version = None
    if (at := properties.find(wire.binary("__ts"))) >= 0:
        value = properties[at + 6 :]
        version = value[2 : 2 + int.from_bytes(value[:2])].decode()
    return packet_id, version, body[topic_end + 3 + length :]


@pytest.mark.parametrize("reconnect", [False, True], ids=["same connection", "next connection"])
def test_a_redelivered_request_is_answered_again_but_not_executed_again(dial, reconnect):
    topic = protocol.response_topic("client")
    expiry = b"\x11\0\0\0\x3c"
    payload = protocol.array("SET", "key", "value", "NX")
    properties = request(topic, b"sixteen bytes id")

    connection = dial()
    connection.send(wire.connect("client", properties=expiry), wire.subscribe(topic, 1))
    connection.expect(wire.CONNACK)
    connection.expect(wire.SUBACK)

    def answer(*packets, resent=0):
        """Sends a request and reads its PUBACK and its response, in whatever order, behind responses that are sent again.

        No response is acknowledged: the answer is forgotten with that.
        """
        connection.send(*packets)
        found = None
        for _ in range(2 + resent):
            first, body = connection.read()
            if first & 0xF0 == wire.PUBLISH:
                found = response(body)
            else:
                assert first == wire.PUBACK and body[:2] == b"\0\2" and body[2:] in (b"", b"\0", b"\0\0"), body
        return found[1:]

    first = answer(wire.publish(protocol.REQUEST, payload, 2, properties=properties))
    assert first[1] == b"+OK\r\n"
    if reconnect:
        connection.close()
        connection = dial()
        connection.send(wire.connect("client", clean_start=False, properties=expiry))
        assert connection.expect(wire.CONNACK)[0] == 1, "session present"
    again = answer(wire.publish(protocol.REQUEST, payload, 2, dup=True, properties=properties), resent=int(reconnect))
    assert again == first, "the same version and reply"
    fresh = answer(wire.publish(protocol.REQUEST, payload, 2, properties=request(topic, b"another request ")))
    assert fresh == (first[0], b":-1\r\n"), "a new request is executed"
