"""MQTT 5 packets byte by byte, for what a well-behaved client library does not send."""

import socket
import struct

from server import HANG_TIMEOUT

CONNACK, PUBLISH, PUBACK, SUBACK, DISCONNECT = 0x20, 0x30, 0x40, 0x90, 0xE0


def variable(number):
    """A variable byte integer."""
    encoded = b""
    while True:
        number, digit = divmod(number, 128)
        encoded += bytes([digit | (0x80 if number else 0)])
        if not number:
            return encoded


def binary(data):
    """Binary data or a string, with its two-byte length."""
    data = data.encode() if isinstance(data, str) else data
    return struct.pack(">H", len(data)) + data


def packet(first_byte, body):
    return bytes([first_byte]) + variable(len(body)) + body


def connect(client_id, *, clean_start=True, keep_alive=0, properties=b""):
    flags = 0x02 if clean_start else 0x00
    body = binary("MQTT") + bytes([5, flags]) + struct.pack(">H", keep_alive)
    return packet(0x10, body + variable(len(properties)) + properties + binary(client_id))


def publish(topic, payload, packet_id, *, dup=False, properties=b""):
    """A PUBLISH of QoS 1."""
    body = binary(topic) + struct.pack(">H", packet_id) + variable(len(properties)) + properties + payload
    return packet(0x3A if dup else 0x32, body)


def subscribe(topic_filter, packet_id):
    return packet(0x82, struct.pack(">H", packet_id) + b"\0" + binary(topic_filter) + b"\x01")


def user_property(name, value):
    return b"\x26" + binary(name) + binary(value)


class Connection:
    """A TCP connection that reads and writes whole packets."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), HANG_TIMEOUT)

    @classmethod
    def over(cls, connected):
        """The same over a socket that is connected already."""
        connection = cls.__new__(cls)
        connection.socket = connected
        return connection

    def send(self, *packets):
        self.socket.sendall(b"".join(packets))

    def _exactly(self, length):
        data = b""
        while len(data) < length:
            piece = self.socket.recv(length - len(data))
            if not piece:
                raise EOFError("the server closed the connection")
            data += piece
        return data

    def read(self):
        """The next packet: its first byte and what follows its length."""
        first = self._exactly(1)[0]
        length = shift = 0
        while True:
            digit = self._exactly(1)[0]
            length |= (digit & 0x7F) << shift
            if digit < 0x80:
                return first, self._exactly(length)
            shift += 7

    def expect(self, kind):
        """The next packet, of this kind; what follows its length."""
        first, body = self.read()
        assert first & 0xF0 == kind, f"packet {first:#04x} {body!r}"
        return body

    def is_closed(self):
        """Reads to the end; whether the server closed the connection, and the reason code of its DISCONNECT."""
        reason = None
        while True:
            try:
                first, body = self.read()
            except (EOFError, ConnectionResetError):
                return True, reason
            if first == DISCONNECT:
                reason = body[0] if body else 0

    def close(self):
        self.socket.close()
