"""The state store protocol by hand."""

import time
import uuid
from collections import deque

import broker

GUID = "FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8"
REQUEST = f"statestore/v1/{GUID}/command/invoke"


def array(*arguments):
    """A request payload."""
    payload = b"*%d\r\n" % len(arguments)
    for argument in arguments:
        argument = argument.encode() if isinstance(argument, str) else argument
        payload += b"$%d\r\n%s\r\n" % (len(argument), argument)
    return payload


def timestamp(ahead_ms=0, node="paho"):
    """A hybrid logical clock value, that many milliseconds ahead of now."""
    return f"{time.time_ns() // 1_000_000 + ahead_ms:015}:00000:{node}"


def response_topic(client_id):
    return f"clients/{client_id}/services/statestore/_any_/command/invoke/response"


def notification_topic(client_id, key):
    return f"clients/statestore/v1/{GUID}/{client_id.encode().hex().upper()}/command/notify/{key.hex().upper()}"


def user_properties(message):
    return dict(getattr(message.properties, "UserProperty", []))


def read_page(payload):
    """The keys of a SCAN reply, and a list of its token, if any."""

    def number(kind):
        nonlocal payload
        line, payload = payload.split(b"\r\n", 1)
        assert line[:1] == kind
        return int(line[1:])

    def bulk():
        nonlocal payload
        length = number(b"$")
        item, end, payload = payload[:length], payload[length : length + 2], payload[length + 2 :]
        assert end == b"\r\n"
        return item

    elements = number(b"*")
    keys = [bulk() for _ in range(number(b"*"))]
    token = [bulk() for _ in range(elements - 1)]
    assert payload == b"" and len(token) <= 1
    return keys, token


class Store:
    """Requests over a connected peer, one at a time."""

    def __init__(self, peer, subscribes=broker.IS_BETWEEN):
        """``subscribes``: notifications as well, which a server of the protocol sends without that."""
        self.peer = peer
        self.topic = response_topic(peer.client_id)
        self._notifications = deque()
        assert peer.subscribe(self.topic) == 1
        if subscribes:
            assert peer.subscribe(notification_topic(peer.client_id, b"") + "+") == 1

    def request(self, payload, *, correlation=None, fence=None, ts=None, names=()):
        """The response message. ``ts``: the text of ``__ts``, or False for none; ``names``: further user properties."""
        correlation = correlation or uuid.uuid4().bytes
        names = [*names]
        if ts is not False:
            names.append(("__ts", timestamp() if ts is None else ts))
        if fence is not None:
            names.append(("__ft", fence))
        reason = self.peer.publish(
            REQUEST,
            payload,
            ResponseTopic=self.topic,
            CorrelationData=correlation,
            MessageExpiryInterval=20,
            ContentType="application/octet-stream",
            **({"UserProperty": names} if names else {}),
        )
        assert reason == 0
        while True:
            message = self.peer.message()
            if message.topic != self.topic:
                self._notifications.append(message)
            elif message.properties.CorrelationData == correlation:
                return message
            else:
                # Of the connection before, which ended before it acknowledged.
                assert message.dup

    def reply(self, *arguments, **options):
        """The payload of the response."""
        return self.request(array(*arguments), **options).payload

    def notification(self):
        """The next message that is not a response."""
        if self._notifications:
            return self._notifications.popleft()
        message = self.peer.message()
        assert message.topic != self.topic
        return message

    def notifications(self):
        """All notifications that the server sent before it handled this call and that were not taken yet."""
        messages = [*self._notifications, *self.peer.received()]
        self._notifications.clear()
        return messages
