"""Callbacks of observers and of the state of the connection."""

import asyncio
import queue
import sys
import threading

import pytest

import statestore
from statestore import aio

GUARD = 30


@pytest.fixture
def unraisable(monkeypatch):
    """What callbacks raised."""
    raised = queue.Queue()
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.put(args.exc_value))
    return raised


def test_an_exception_in_a_callback_is_reported_and_the_observations_go_on(statestore_client, unraisable):
    seen = queue.Queue()

    def callback(observation):
        if observation.value == b"bad":
            raise RuntimeError("bad value")
        seen.put(observation.value)

    observer = statestore_client.observe("key", callback, overflow="all")
    for value in ("one", "bad", "two"):
        statestore_client.set("key", value)
    assert [seen.get(timeout=GUARD), seen.get(timeout=GUARD)] == [b"one", b"two"]
    assert str(unraisable.get(timeout=GUARD)) == "bad value"
    assert observer.error() is None


def test_the_same_in_asyncio(statestore_server, unraisable):
    async def main():
        seen = asyncio.Queue()

        async def callback(observation):
            if observation.value == b"bad":
                raise RuntimeError("bad value")
            await seen.put((observation.value, threading.get_ident()))

        async with aio.connect(statestore_server.url) as client:
            await client.observe("key", callback, overflow="all")
            for value in ("one", "bad", "two"):
                await client.set("key", value)
            here = threading.get_ident()
            assert await asyncio.wait_for(seen.get(), GUARD) == (b"one", here)
            assert await asyncio.wait_for(seen.get(), GUARD) == (b"two", here)

    asyncio.run(main())
    assert str(unraisable.get(timeout=GUARD)) == "bad value"


def test_callbacks_of_a_client_run_one_after_the_other_on_one_other_thread(statestore_client):
    seen = queue.Queue()
    running = threading.Lock()

    def callback(observation):
        assert running.acquire(blocking=False), "two callbacks at once"
        seen.put(threading.get_ident())
        running.release()

    keys = ["a", "b", "c"]
    for key in keys:
        statestore_client.observe(key, callback, overflow="all")
    for _ in range(20):
        for key in keys:
            statestore_client.set(key, "value")
    threads = {seen.get(timeout=GUARD) for _ in range(60)}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_blocking_calls_are_allowed_in_a_callback(statestore_client):
    seen = queue.Queue()
    statestore_client.observe("key", lambda _: seen.put(statestore_client.get("key")))
    statestore_client.set("key", "value")
    assert seen.get(timeout=GUARD).value == b"value"


def test_a_closed_observer_calls_no_more(statestore_client):
    seen, other = queue.Queue(), queue.Queue()
    observer = statestore_client.observe("key", seen.put)
    statestore_client.observe("key", other.put)
    statestore_client.set("key", "one")
    assert seen.get(timeout=GUARD).value == b"one"
    observer.close()
    statestore_client.set("key", "two")
    while other.get(timeout=GUARD).value != b"two":
        pass
    assert seen.empty()


def test_the_state_of_the_connection(statestore_server, start_server, face, connect):
    server = start_server()
    client = face.run(face.module.connect(server.url, reconnect_delay_max=0.05))
    assert client.state() == statestore.State("connected", None)
    states = client.states()
    assert face.run(states.next(timeout=GUARD)).kind == "connected"
    server.kill()
    state = face.run(states.next(timeout=GUARD))
    assert state.kind == "reconnecting"
    assert isinstance(state.reason, statestore.StateStoreError)
    face.run(client.close())
    # More attempts may have failed meanwhile; then it ends.
    while (state := face.run(states.next(timeout=GUARD))) is not None:
        assert state.kind in ("reconnecting", "closed")


def test_a_callback_for_the_state(statestore_server):
    seen = queue.Queue()
    client = statestore.connect(statestore_server.url)
    client.states(seen.put)
    assert seen.get(timeout=GUARD).kind == "connected"
    client.close()


def test_an_observer_says_why_it_ended(statestore_server, face, connect):
    """Two clients with one id: the second takes the session, and the first gives up for good."""
    first = connect(client_id="twin")
    observer = face.run(first.observe("key"))
    connect(client_id="twin")
    with pytest.raises(statestore.StateStoreError):
        face.run(first.get("key"))
    assert face.run(observer.next(timeout=GUARD)) is None


def test_the_holders_of_a_lease(face, connect):
    one, two = connect(), connect()
    observer = face.run(two.lease("door").observe())
    assert face.run(observer.next(timeout=GUARD)) == statestore.Nobody()
    guard = face.run(one.lock("door", holder="ann"))
    assert face.run(observer.next(timeout=GUARD)).holder.name == b"ann"
    face.run(guard.release())
    assert not face.run(observer.next(timeout=GUARD))


def test_the_leaders_of_an_election(face, connect):
    one, two = connect(), connect()
    observer = face.run(two.election("chief").observe())
    assert not face.run(observer.next(timeout=GUARD))
    leadership = face.run(one.election("chief").campaign("ann"))
    while not (leader := face.run(observer.next(timeout=GUARD))) or leader.value is None:
        pass
    assert leader.value == b"ann"
    assert leadership.guard.is_valid()
    face.run(leadership.resign())
    assert not leadership.guard.is_valid()
