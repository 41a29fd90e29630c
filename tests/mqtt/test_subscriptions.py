"""Ordinary topics between clients."""

import pytest

import wire


@pytest.mark.parametrize(
    ("topic_filter", "matching", "others"),
    [
        ("a/b", ["a/b"], ["a", "a/b/c", "a/bb", "A/b", "/a/b"]),
        ("a/+", ["a/b", "a/"], ["a", "a/b/c"]),
        ("+/b", ["a/b", "/b"], ["b", "a/b/c"]),
        ("a/#", ["a", "a/b", "a/b/c"], ["ab", "b/a"]),
        ("#", ["a", "a/b", "/"], ["$internal/a"]),
        ("+", ["a"], ["a/b", "/a", "$internal"]),
        ("a/+/c/#", ["a/b/c", "a//c/d/e"], ["a/c", "a/b/d"]),
    ],
)
def test_a_filter_matches_by_levels(connect, topic_filter, matching, others):
    client = connect("client")
    assert client.subscribe(topic_filter) == 1
    for topic in [*others, *matching]:
        client.publish(topic)
    assert [message.topic for message in client.received()] == matching


@pytest.mark.parametrize(
    ("published", "granted", "delivered"), [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 1)]
)
def test_the_lower_qos_of_publisher_and_subscriber_counts(connect, published, granted, delivered):
    subscriber = connect("subscriber")
    assert subscriber.subscribe("topic", qos=granted) == granted
    connect("publisher").publish("topic", b"payload", qos=published)
    assert subscriber.message().qos == delivered


def test_an_invalid_filter_is_refused(dial):
    connection = dial()
    connection.send(wire.connect("client"), *(wire.subscribe(bad, 1) for bad in ["a#", "#/a", "a+", "+a/b"]))
    connection.expect(wire.CONNACK)
    for _ in range(4):
        assert connection.expect(wire.SUBACK) == b"\0\1\0\x8f"


def test_overlapping_subscriptions_deliver_once_at_the_highest_qos(connect):
    client = connect("client")
    client.subscribe("a/+", qos=0, identifier=1)
    client.subscribe("a/#", qos=1, identifier=2)
    client.subscribe("+/b", qos=0, identifier=300_000)
    client.subscribe("other", qos=1, identifier=4)
    connect("publisher").publish("a/b", b"once")
    (message,) = client.received()
    assert message.qos == 1
    assert sorted(message.properties.SubscriptionIdentifier) == [1, 2, 300_000]


def test_subscribing_again_replaces_the_subscription(connect):
    client = connect("client")
    client.subscribe("topic", qos=1, identifier=1)
    client.subscribe("topic", qos=0, identifier=2)
    connect("publisher").publish("topic", b"once")
    (message,) = client.received()
    assert message.qos == 0
    assert message.properties.SubscriptionIdentifier == [2]


def test_no_local_spares_the_publisher(connect):
    clients = [connect("one"), connect("two")]
    for client in clients:
        client.subscribe("topic", no_local=True)
    clients[0].publish("topic")
    assert clients[0].received() == []
    assert clients[1].message().topic == "topic"


def test_an_unsubscribed_client_gets_nothing_more(connect):
    client = connect("client")
    client.subscribe("topic")
    assert client.unsubscribe("topic") == 0x00
    assert client.unsubscribe("topic") == 0x11
    client.publish("topic")
    assert client.received() == []


def test_a_message_without_subscribers_is_acknowledged_as_such(connect):
    assert connect("publisher").publish("nobody/listens") in (0x00, 0x10)


def test_messages_keep_their_properties_and_their_order(connect):
    subscriber = connect("subscriber")
    subscriber.subscribe("topic")
    publisher = connect("publisher")
    for number in range(1000):
        publisher.send("topic", b"%d" % number)
    publisher.publish(
        "topic",
        bytes(range(256)),
        PayloadFormatIndicator=0,
        ContentType="application/x-test",
        ResponseTopic="answers/here",
        CorrelationData=b"\0\xff",
        UserProperty=[("name", "first"), ("name", "second"), ("empty", "")],
    )
    received = [subscriber.message().payload for _ in range(1000)]
    assert received == [b"%d" % number for number in range(1000)]
    message = subscriber.message()
    assert message.payload == bytes(range(256))
    assert message.properties.PayloadFormatIndicator == 0
    assert message.properties.ContentType == "application/x-test"
    assert message.properties.ResponseTopic == "answers/here"
    assert message.properties.CorrelationData == b"\0\xff"
    assert message.properties.UserProperty == [("name", "first"), ("name", "second"), ("empty", "")]
