"""What things show of themselves, and what they say when they are forgotten."""

import gc
import warnings

import pytest

import statestore
from statestore.testing import Server


def warned_of(forget):
    """The warnings of forgetting something."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        forget()
        gc.collect()
    return [(warning.category, str(warning.message)) for warning in caught]


def forget(things):
    return lambda: things.clear()


@pytest.mark.parametrize(
    "take",
    [lambda client: client.lock("lock"), lambda client: client.lease("lock").acquire(), lambda client: client.election("lock").campaign("me")],
    ids=["lock", "lease", "election"],
)
def test_a_guard_dropped_while_held_warns_and_is_released(take, face, connect):
    client = connect()
    held = [face.run(take(client))]
    ((category, message),) = warned_of(forget(held))
    assert category is ResourceWarning and 'b"lock"' in message and "while the lock is held" in message
    # Another client need not wait for the end of the lease.
    face.run(face.run(client.lock("lock", wait=5, timeout=5)).release())


def test_released_left_or_lost_guards_do_not_warn(face, connect):
    client, other = connect(), connect()
    released, left = face.run(client.lock("released")), face.run(client.lock("left"))
    face.run(released.release())
    face.run(left.leave())
    closed = face.run(other.lock("closed"))
    face.run(other.close())
    things = [released, left, closed]
    del released, left, closed
    assert warned_of(forget(things)) == []


def test_the_guard_of_a_leadership_does_not_warn_while_the_leadership_exists(face, connect):
    lead = face.run(connect().election("chief").campaign("me"))
    guards = [lead.guard]
    assert warned_of(forget(guards)) == []
    face.run(lead.resign())


def test_reprs(face, connect):
    client = connect(client_id="me")
    guard = face.run(client.lock("lock", holder="name", resume=True))
    observer = face.run(client.observe("key"))
    matching = face.run(client.observe_matching("key*"))
    lead = face.run(client.election("chief").campaign("me"))
    shown = {
        client: '<Client "me">',
        guard: f'<Guard b"lock" {guard.token}>',
        observer: '<Observer b"key">',
        matching: '<Observer b"key*">',
        face.run(client.mirror("key*")): "<Mirror b'key*'>",
        client.states(): "<Observer of states>",
        client.lease("lock"): '<Lease b"lock">',
        client.election("chief"): '<Election b"chief">',
        lead: f'<Leadership of <Guard b"chief" {lead.guard.token}>>',
        client.scan("a*"): '<Scan b"a*">',
        client.scan_entries("a*"): '<Scan b"a*">',
        client.pipeline().get("a"): "<Pipeline of 1>",
        guard.token: f"Hlc('{guard.token}')",
        guard.holder: "Holder(name=b'name', client_id=None)",
    }
    for thing, text in shown.items():
        assert repr(thing) == text
    face.run(guard.release())
    face.run(lead.resign())
    face.run(observer.close())
    assert repr(guard) == f'<Guard b"lock" {guard.token} released>'
    assert repr(observer) == '<Observer b"key" closed>'


def test_a_server_repr_shows_whether_it_runs():
    server = Server()
    assert repr(server) == f"<Server {server.url}>"
    server.stop()
    assert repr(server) == f"<Server {server.url} stopped>"
    assert statestore.testing.Server is Server
