"""The state store protocol by hand, as the peers speak it."""

import time

GUID = "FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8"
REQUEST = f"statestore/v1/{GUID}/command/invoke"


def response_topic(client_id):
    return f"clients/{client_id}/services/statestore/_any_/command/invoke/response"


def get(key):
    return b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key)


def set_(key, value):
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value)


def value(payload):
    """The value of a reply to GET, or None."""
    head, rest = payload.split(b"\r\n", 1)
    if head[:1] != b"$":
        raise RuntimeError(payload)
    length = int(head[1:])
    return rest[:length] if length >= 0 else None


def timestamp(client_id):
    return f"{time.time_ns() // 1_000_000:015}:00000:{client_id}"
