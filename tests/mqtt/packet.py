"""MQTT packets taken apart, and what they mean beyond what differs each time."""

import re
import struct

import wire

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, DISCONNECT = 0x10, 0x20, 0x30, 0x40, 0x80, 0x90, 0xE0
CORRELATION_DATA, TOPIC_ALIAS, USER_PROPERTY = 0x09, 0x23, 0x26
LANES = ("requests and answers", "notifications")
VERSION = re.compile(rb"\d{15}:\d{5}:StateStore")
# What the releases could do; how much of it depends on the storage, and later ones may do more.
CAPABILITY = re.compile(rb"\$\d+\r\n(IFV|PTTL|TXN|EVENTUAL)\r\n:\d+\r\n")
# The session of a holder of a lock.
UNIQUE = re.compile(rb"/[0-9a-f]{16}/")
# How long the value of a property is: a number of bytes, or these.
VARIABLE, BINARY, PAIR = "variable", "binary", "pair"
PROPERTIES = {
    0x01: 1, 0x02: 4, 0x03: BINARY, 0x08: BINARY, 0x09: BINARY, 0x0B: VARIABLE, 0x11: 4, 0x12: BINARY, 0x13: 2, 0x15: BINARY, 0x16: BINARY,
    0x17: 1, 0x18: 4, 0x19: 1, 0x1A: BINARY, 0x1C: BINARY, 0x1F: BINARY, 0x21: 2, 0x22: 2, 0x23: 2, 0x24: 1, 0x25: 1, 0x26: PAIR, 0x27: 4,
    0x28: 1, 0x29: 1, 0x2A: 1,
}


class Reader:
    """Takes a packet apart."""

    def __init__(self, data):
        self.data = data

    def take(self, count):
        taken, self.data = self.data[:count], self.data[count:]
        assert len(taken) == count
        return taken

    def number(self):
        return struct.unpack(">H", self.take(2))[0]

    def variable(self):
        value = shift = 0
        while True:
            digit = self.take(1)[0]
            value |= (digit & 0x7F) << shift
            shift += 7
            if digit < 0x80:
                return value

    def binary(self):
        return self.take(self.number())

    def properties(self):
        """Pairs of an identifier and a value, as it is encoded."""
        inside, found = Reader(self.take(self.variable())), []
        while inside.data:
            kind = inside.variable()
            how = PROPERTIES[kind]
            if how == VARIABLE:
                value = wire.variable(inside.variable())
            elif how == BINARY:
                value = wire.binary(inside.binary())
            elif how == PAIR:
                value = wire.binary(inside.binary()) + wire.binary(inside.binary())
            else:
                value = inside.take(how)
            found.append((kind, value))
        return found


class Publish:
    """A PUBLISH, to be looked at and put together again."""

    def __init__(self, first, body):
        reader = Reader(body)
        self.first, self.topic = first, reader.binary()
        self.id = reader.number() if first & 0x06 else None
        self.properties = reader.properties()
        self.payload = reader.data

    @property
    def correlation(self):
        return next((value[2:] for kind, value in self.properties if kind == CORRELATION_DATA), None)

    def status(self):
        """The user properties."""
        readers = [Reader(value) for kind, value in self.properties if kind == USER_PROPERTY]
        return sorted((reader.binary(), reader.binary()) for reader in readers)

    def packet(self, packet_id, correlation):
        properties = b""
        for kind, value in self.properties:
            if kind == CORRELATION_DATA:
                value = wire.binary(correlation)
            properties += wire.variable(kind) + value
        body = wire.binary(self.topic) + (b"" if packet_id is None else struct.pack(">H", packet_id))
        return wire.packet(self.first, body + wire.variable(len(properties)) + properties + self.payload)


def split(packet):
    """The first byte, and what follows the length."""
    reader = Reader(packet[1:])
    reader.variable()
    return packet[0], reader.data


def alias(publish):
    """The topic alias of a PUBLISH; none if it has none."""
    return next((value for kind, value in publish.properties if kind == TOPIC_ALIAS), None)


class SessionSide:
    """What one end of a connection said, sorted into lanes: packets of one lane come in their order, those of two may change places."""

    def __init__(self):
        self.lanes, self.publishes, self.aliases = {}, {}, {}

    def add(self, packet):
        """Takes the next one."""
        first, body = split(packet)
        kind = first & 0xF0
        if kind == PUBLISH:
            publish = Publish(first, body)
            if (number := alias(publish)) is not None:
                publish.topic = self.aliases.setdefault(number, publish.topic) if not publish.topic else publish.topic
                self.aliases[number] = publish.topic
            lane = "notifications" if b"/notify/" in publish.topic else "requests and answers"
            self.publishes.setdefault(lane, []).append(publish)
            self.lanes.setdefault(lane, []).append((publish.topic, publish.payload, publish.status()))
        elif kind == CONNACK:
            self.lanes.setdefault("CONNACK", []).append((body[0], body[1]))
        elif kind == PUBACK:
            self.lanes.setdefault("PUBACK", []).append(body[2] if len(body) > 2 else 0)
        elif kind == SUBACK:
            self.lanes.setdefault("SUBACK", []).append(body[-1])
        else:
            self.lanes.setdefault(f"{kind:#04x}", []).append(b"")

    def counterpart(self, other, packet_id):
        """The PUBLISH that stands where in the other half the one with this identifier is: the last of them, since identifiers come again."""
        for lane, publishes in other.publishes.items():
            for place, publish in reversed(list(enumerate(publishes))):
                if publish.id == packet_id:
                    return self.publishes[lane][place]
        raise AssertionError(f"nothing was published as {packet_id}")


def meaning(halves, keys_have_an_order=True):
    """What a server said on the connections of a recording: of versions only which are the same, and which are later."""
    said = [{lane: list(packets) for lane, packets in half.lanes.items()} for half in halves]
    texts = [text for lanes in said for packet in _publishes(lanes) for text in _texts(packet)]
    versions = sorted({version for text in texts for version in VERSION.findall(text)})
    ranks = {version: b"version %d" % rank for rank, version in enumerate(versions)}

    def ranked(text):
        if text[:1] == b"*" and (names := CAPABILITY.findall(text)):
            return b" ".join(sorted(names))
        return VERSION.sub(lambda found: ranks[found[0]], text)

    for lanes in said:
        for lane in LANES:
            lanes[lane] = [(topic, ranked(payload), [(name, ranked(value)) for name, value in status]) for topic, payload, status in lanes.get(lane, [])]
            if not keys_have_an_order:
                lanes[lane] = [(topic, sorted(payload.split(b"\r\n")), status) for topic, payload, status in lanes[lane]]
    return said


def demand(half):
    """What a client asked for: without its clock, and what it makes up for a name that nobody else has."""
    said = dict(half.lanes)
    for lane in LANES:
        said[lane] = [
            (topic, UNIQUE.sub(b"/unique/", payload), [(name, b"" if name == b"__ts" else value) for name, value in status])
            for topic, payload, status in said.get(lane, [])
        ]
    return said


def _publishes(lanes):
    return [packet for lane in LANES for packet in lanes.get(lane, [])]


def _texts(packet):
    _, payload, status = packet
    return [payload, *(value for _, value in status)]
