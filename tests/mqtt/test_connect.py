"""What CONNACK announces, and what is refused accordingly."""

import pytest

import wire
from peer import Refused, Will


def test_connack_announces_the_limits(start, connect):
    server = start("--max-packet-bytes", "65536")
    connack = connect("client", to=server).connack
    assert connack.MaximumQoS == 1
    assert connack.RetainAvailable == 0
    assert connack.SharedSubscriptionAvailable == 0
    assert connack.MaximumPacketSize == 65536
    # Absent means available.
    assert getattr(connack, "WildcardSubscriptionAvailable", 1) == 1
    assert getattr(connack, "SubscriptionIdentifierAvailable", 1) == 1
    assert connack.TopicAliasMaximum > 0


def test_a_client_without_an_id_is_given_one(connect):
    ids = {connect("").connack.AssignedClientIdentifier for _ in range(2)}
    assert len(ids) == 2 and "" not in ids


def test_qos_2_is_refused(server, connect, dial):
    assert connect("client").subscribe("topic", qos=2) == 1, "the granted QoS"
    publisher = connect("publisher")
    publisher.send("topic", qos=2)
    assert publisher.ended() == 0x9B
    with pytest.raises(Refused) as refused:
        connect("dying", will=Will("topic", b"", qos=2))
    assert refused.value.code == 0x9B


def test_retain_is_refused(connect):
    publisher = connect("publisher")
    publisher.send("topic", b"kept", retain=True)
    assert publisher.ended() == 0x9A
    with pytest.raises(Refused) as refused:
        connect("dying", will=Will("topic", b"", retain=True))
    assert refused.value.code == 0x9A


def test_shared_subscriptions_are_refused(connect):
    client = connect("client")
    assert client.subscribe("$share/group/topic") == 0x9E
    assert client.subscribe("topic") == 1, "the connection lives on"


def test_only_known_users_may_connect(start, connect, tmp_path):
    users = tmp_path / "users"
    users.write_text("ann:first: secret\nbob:second\n")
    users.chmod(0o600)
    server = start("--users-file", str(users))
    for user, password in [("ann", "first: secret"), ("bob", "second")]:
        assert connect(user, to=server, user=user, password=password).publish("topic") in (0x00, 0x10)
    for user, password in [(None, None), ("ann", "second"), ("ann", None), ("eve", "second")]:
        with pytest.raises(Refused) as refused:
            connect("eve", to=server, user=user, password=password)
        assert refused.value.code in (0x86, 0x87)


@pytest.mark.parametrize("level", [3, 4, 6])
def test_other_versions_of_mqtt_are_refused(dial, level):
    name = "MQIsdp" if level == 3 else "MQTT"
    body = wire.binary(name) + bytes([level, 2, 0, 0]) + (b"\0" if level == 6 else b"") + wire.binary("old")
    connection = dial()
    connection.send(wire.packet(0x10, body))
    closed, _ = connection.is_closed()
    assert closed


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        bytes(range(256)),
        b"\x10\xff\xff\xff\xff\xff",
        b"\x10\xff\xff\xff\x7f",
        wire.publish("topic", b"before CONNECT", 1),
        wire.connect("twice") + wire.connect("twice"),
        wire.connect("client") + wire.packet(0x30, wire.binary("a/#") + b"\0"),
        wire.connect("client") + wire.packet(0x32, wire.binary("topic") + b"\0\0\0"),
        wire.connect("client") + wire.packet(0x80, b"\0\1\0" + wire.binary("topic") + b"\1"),
        wire.connect("client") + wire.packet(0x30, wire.binary(b"\xff\xfe") + b"\0"),
        wire.connect("client") + b"\xf1\0",
    ],
    ids=range(11),
)
def test_noise_closes_its_own_connection_only(connect, dial, noise):
    bystander = connect("bystander")
    bystander.subscribe("topic")
    connection = dial()
    connection.send(noise)
    closed, _ = connection.is_closed()
    assert closed
    assert bystander.publish("topic", b"still here") == 0
    assert bystander.message().payload == b"still here"


def test_a_silent_client_is_disconnected_after_its_keep_alive(dial):
    connection = dial()
    connection.send(wire.connect("silent", keep_alive=1))
    connection.expect(wire.CONNACK)
    assert connection.is_closed() == (True, 0x8D)


def test_pings_keep_a_connection(connect, dial):
    talker = dial()
    talker.send(wire.connect("talker", keep_alive=2), b"\xc0\0")
    talker.expect(wire.CONNACK)
    assert talker.expect(0xD0) == b""
    silent = dial()
    silent.send(wire.connect("silent", keep_alive=4))
    silent.expect(wire.CONNACK)
    # The silent connection is the clock: it ends after six seconds.
    silent.socket.settimeout(0.2)
    while True:
        try:
            assert silent.read()[0] == wire.DISCONNECT
            break
        except TimeoutError:
            talker.send(b"\xc0\0")
            assert talker.expect(0xD0) == b""
