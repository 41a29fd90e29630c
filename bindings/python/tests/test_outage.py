"""Calls while the connection is lost."""

import pytest
from conftest import HANG_TIMEOUT

import statestore


def lose(face, client, server):
    server.kill()
    while face.run(client.state()).kind != "reconnecting":
        face.turn()


def test_a_call_fails_at_once_while_the_connection_is_lost_if_that_is_set(face, start_server):
    server = start_server()
    client = face.run(face.module.connect(server.url, fail_fast=True, request_timeout=3600))
    try:
        lose(face, client, server)
        calls = [
            lambda: client.get("key"),
            lambda: client.set("key", "v"),
            lambda: client.delete("key"),
            lambda: client.vdel("key", "v"),
            lambda: client.get_many(["key"]),
            lambda: client.exists("key"),
            lambda: client.touch("key", 60),
            lambda: client.incr("key"),
            client.ping,
            lambda: client.update("key", lambda _: "v"),
            lambda: client.lock("lock"),
            lambda: client.lease("lock").acquire(),
            lambda: client.observe("key"),
            lambda: client.observe_matching("key*"),
            lambda: client.mirror("key*"),
        ]
        for call in calls:
            with pytest.raises(statestore.UnreachableError, match="fail_fast is set and the connection was lost") as raised:
                face.run(call())
            assert (raised.value.outcome, raised.value.retryable) == ("not_done", True)
            assert isinstance(raised.value, ConnectionError)
    finally:
        face.run(client.close(timeout=HANG_TIMEOUT))


def test_a_time_out_reports_the_lost_connection(face, start_server):
    server = start_server()
    client = face.run(face.module.connect(server.url))
    try:
        lose(face, client, server)
        told = r"within .*; the connection was lost [0-9.]+ s ago: .*127\.0\.0\.1"
        with pytest.raises(statestore.TimedOutError, match=told) as raised:
            face.run(client.set("key", "v", timeout=0.05))
        assert raised.value.outcome == "not_done"
    finally:
        face.run(client.close())
