"""As much of MQTT 5 as a client of the state store needs of a broker: packets to and from bytes."""

import struct

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 1, 2, 3, 4, 8, 9, 12, 13, 14

PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY = 1, 2, 3, 8, 9, 38

# How the properties are written that a client may send; the others are a mistake.
NUMBERS = {PAYLOAD_FORMAT: 1, MESSAGE_EXPIRY: 4, 17: 4, 23: 1, 25: 1, 33: 2, 34: 2, 35: 2, 39: 4}
BINARIES = {CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA}


class Reader:
    """Takes the fields of a packet from its front. What is too short raises `ValueError`."""

    def __init__(self, data):
        self._data, self._at = data, 0

    def take(self, length):
        taken = self._data[self._at : self._at + length]
        if len(taken) < length:
            raise ValueError(f"{length} bytes at {self._at} of {self._data!r}")
        self._at += length
        return taken

    def rest(self):
        return self.take(len(self._data) - self._at)

    def is_empty(self):
        return self._at == len(self._data)

    def number(self, length):
        return int.from_bytes(self.take(length), "big")

    def binary(self):
        return self.take(self.number(2))

    def variable(self):
        return read_variable(self.take)

    def properties(self):
        """The values of each property, in their order; those of the user are pairs."""
        inner = Reader(self.take(self.variable()))
        found = {}
        while not inner.is_empty():
            identifier = inner.number(1)
            if identifier in NUMBERS:
                value = inner.number(NUMBERS[identifier])
            elif identifier in BINARIES:
                value = inner.binary()
            elif identifier == USER_PROPERTY:
                value = (inner.binary(), inner.binary())
            else:
                raise ValueError(f"property {identifier}")
            found.setdefault(identifier, []).append(value)
        return found


def read_variable(take):
    """A variable byte integer, whose bytes `take` gives."""
    number = 0
    for shift in range(0, 28, 7):
        (digit,) = take(1)
        number |= (digit & 0x7F) << shift
        if digit < 0x80:
            return number
    raise ValueError("a variable byte integer of five bytes")


def variable(number):
    encoded = b""
    while True:
        number, digit = divmod(number, 128)
        encoded += bytes([digit | (0x80 if number else 0)])
        if not number:
            return encoded


def binary(data):
    return struct.pack(">H", len(data)) + data


def packets(stream):
    """Kind, flags and a reader of each packet, until the stream ends."""
    while first := stream.read(1):
        body = stream.read(read_variable(stream.read))
        yield first[0] >> 4, first[0] & 15, Reader(body)


def packet(kind, body=b"", flags=0):
    return bytes([kind << 4 | flags]) + variable(len(body)) + body


def connack(reason=0):
    return packet(CONNACK, bytes([0, reason]) + variable(0))


def suback(packet_id, granted):
    return packet(SUBACK, struct.pack(">H", packet_id) + variable(0) + bytes(granted))


def puback(packet_id):
    return packet(PUBACK, struct.pack(">H", packet_id))


def publish(topic, payload, packet_id, user_properties=(), correlation=None):
    """A PUBLISH of QoS 1."""
    properties = b"" if correlation is None else bytes([CORRELATION_DATA]) + binary(correlation)
    for name, value in user_properties:
        properties += bytes([USER_PROPERTY]) + binary(name) + binary(value)
    head = binary(topic) + struct.pack(">H", packet_id) + variable(len(properties)) + properties
    return packet(PUBLISH, head + payload, flags=0b0010)
