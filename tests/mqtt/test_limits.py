"""Limits of packets and of what is in flight, in both directions."""

import pytest

import store as protocol
import wire

LIMIT = 4096


@pytest.fixture
def server(start):
    return start("--max-packet-bytes", str(LIMIT))


def message_of(size):
    """A PUBLISH of QoS 1 of that many bytes."""
    overhead = len(wire.publish("topic", b"x" * 1000, 1)) - 1000
    made = wire.publish("topic", b"x" * (size - overhead), 1)
    assert len(made) == size
    return made


def test_a_packet_may_be_as_large_as_announced(connect, dial):
    subscriber = connect("subscriber")
    subscriber.subscribe("topic")
    connection = dial()
    connection.send(wire.connect("publisher"), message_of(LIMIT))
    connection.expect(wire.CONNACK)
    assert connection.expect(wire.PUBACK)[:2] == b"\0\1"
    assert len(subscriber.message().payload) > LIMIT - 20


def test_an_oversized_packet_closes_only_its_own_connection(connect, dial):
    bystander = connect("bystander")
    bystander.subscribe("topic")
    connection = dial()
    connection.send(wire.connect("publisher"), message_of(LIMIT + 1))
    connection.expect(wire.CONNACK)
    assert connection.is_closed() == (True, 0x95)
    bystander.publish("topic", b"small")
    assert [message.payload for message in bystander.received()] == [b"small"]


def test_the_announcement_of_a_huge_packet_is_enough_to_refuse_it(dial):
    connection = dial()
    connection.send(wire.connect("publisher"), b"\x32\xff\xff\xff\x7f")
    connection.expect(wire.CONNACK)
    assert connection.is_closed() == (True, 0x95)


def test_a_message_too_large_for_a_subscriber_passes_it_by(connect):
    small = connect("small", MaximumPacketSize=100)
    large = connect("large")
    for subscriber in [small, large]:
        subscriber.subscribe("topic")
    publisher = connect("publisher")
    for payload in [b"x" * 200, b"fits"]:
        assert publisher.publish("topic", payload) == 0
    assert [message.payload for message in small.received()] == [b"fits"]
    assert [len(message.payload) for message in large.received()] == [200, 4]


def test_a_response_too_large_for_its_client_is_a_failure_in_the_puback(connect, open_store):
    store = open_store()
    assert store.reply("SET", "key", bytes(1000)) == b"+OK\r\n"
    small = connect("small", MaximumPacketSize=500)
    request = {"ResponseTopic": protocol.response_topic("small"), "CorrelationData": b"c"}
    small.subscribe(request["ResponseTopic"])
    assert small.publish(protocol.REQUEST, protocol.array("GET", "key"), **request) >= 0x80
    assert small.publish(protocol.REQUEST, protocol.array("GET", "absent"), **request) == 0
    assert [message.payload for message in small.received()] == [b"$-1\r\n"]


def test_receive_maximum_bounds_messages_in_flight(connect):
    subscriber = connect("subscriber", manual_ack=True, ReceiveMaximum=2)
    subscriber.subscribe("topic")
    publisher = connect("publisher")
    for number in range(5):
        publisher.publish("topic", b"%d" % number)
    in_flight = subscriber.received()
    assert [message.payload for message in in_flight] == [b"0", b"1"]
    for number in range(2, 5):
        subscriber.acknowledge(in_flight.pop(0))
        in_flight.append(subscriber.message())
        assert in_flight[-1].payload == b"%d" % number
        assert subscriber.received() == [], "the window is full again"


def test_a_topic_alias_stands_for_its_topic(connect):
    subscriber = connect("subscriber")
    subscriber.subscribe("a/#")
    publisher = connect("publisher")
    publisher.publish("a/long/topic", b"1", TopicAlias=1)
    publisher.publish("", b"2", TopicAlias=1)
    publisher.publish("a/other", b"3", TopicAlias=1)
    publisher.publish("", b"4", TopicAlias=1)
    received = [(message.topic, message.payload) for message in subscriber.received()]
    assert received == [("a/long/topic", b"1"), ("a/long/topic", b"2"), ("a/other", b"3"), ("a/other", b"4")]


def test_requests_may_use_a_topic_alias(connect):
    client = connect("client")
    topic = protocol.response_topic("client")
    client.subscribe(topic)
    for request in [protocol.REQUEST, ""]:
        client.publish(
            request,
            protocol.array("GET", "key"),
            TopicAlias=1,
            ResponseTopic=topic,
            CorrelationData=b"c",
        )
        assert client.message().payload == b"$-1\r\n"


@pytest.mark.parametrize("alias", [b"\x23\0\0", b"\x23\xff\xff"], ids=["zero", "above the maximum"])
def test_an_alias_out_of_range_is_refused(dial, alias):
    connection = dial()
    connection.send(wire.connect("client"), wire.publish("topic", b"", 1, properties=alias))
    connection.expect(wire.CONNACK)
    closed, reason = connection.is_closed()
    assert closed and reason in (0x82, 0x94)


def test_an_alias_without_a_topic_is_refused(dial):
    connection = dial()
    connection.send(wire.connect("client"), wire.publish("", b"", 1, properties=b"\x23\0\1"))
    connection.expect(wire.CONNACK)
    closed, reason = connection.is_closed()
    assert closed and reason in (0x82, 0x94)
