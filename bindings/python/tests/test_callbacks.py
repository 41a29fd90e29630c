"""Callbacks of observers and of the state of the connection."""

import asyncio
import queue
import sys
import threading
import time
import warnings

import pytest

import statestore
from statestore import aio

HANG_TIMEOUT = 30


@pytest.fixture
def unraisable(monkeypatch):
    """What callbacks raised: to the hook of the interpreter, or to the handler of the event loop."""
    raised = queue.Queue()
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.put(args.exc_value))

    def handle(_, context):
        assert "callback" in context["message"]
        raised.put(context["exception"])

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_exception_handler", handle)
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
    assert [seen.get(timeout=HANG_TIMEOUT), seen.get(timeout=HANG_TIMEOUT)] == [b"one", b"two"]
    assert str(unraisable.get(timeout=HANG_TIMEOUT)) == "bad value"
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
            assert await asyncio.wait_for(seen.get(), HANG_TIMEOUT) == (b"one", here)
            assert await asyncio.wait_for(seen.get(), HANG_TIMEOUT) == (b"two", here)

    asyncio.run(main())
    assert str(unraisable.get(timeout=HANG_TIMEOUT)) == "bad value"


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_callback_that_raises_a_cancellation_does_not_end_the_observations(kind, statestore_server, unraisable):
    async def main():
        seen = asyncio.Queue()

        def plain(observation):
            if observation.value == b"bad":
                raise asyncio.CancelledError("inside")
            seen.put_nowait(observation.value)

        async def coroutine(observation):
            await asyncio.sleep(0)
            plain(observation)

        async with aio.connect(statestore_server.url) as client:
            await client.observe("key", plain if kind == "plain" else coroutine, overflow="all")
            for value in ("one", "bad", "two"):
                await client.set("key", value)
            assert await asyncio.wait_for(seen.get(), HANG_TIMEOUT) == b"one"
            assert await asyncio.wait_for(seen.get(), HANG_TIMEOUT) == b"two"

    asyncio.run(main())
    assert isinstance(unraisable.get(timeout=HANG_TIMEOUT), asyncio.CancelledError)


def test_an_observation_that_does_not_decode_is_reported_and_the_next_is_delivered(statestore_server, face, connect, unraisable):
    client, seen = connect(encoding="utf-8"), queue.Queue()
    face.run(client.observe("key", seen.put, overflow="all"))
    for value in (b"\xff", b"text"):
        face.run(client.set("key", value))
    while seen.empty():
        face.run(client.get("other"))
    assert seen.get().value == "text"
    assert isinstance(unraisable.get(timeout=HANG_TIMEOUT), UnicodeDecodeError)


def heard(face, seen):
    """The next observation of a callback."""
    deadline = time.monotonic() + HANG_TIMEOUT
    while seen.empty():
        assert time.monotonic() < deadline, "the callback was not called"
        face.turn()
    return seen.get()


def test_an_exception_in_the_callback_of_a_pattern_is_reported_and_the_observations_go_on(face, connect, unraisable):
    client, seen = connect(), queue.Queue()

    def callback(observation):
        if observation == statestore.Complete():
            raise RuntimeError("not complete")
        seen.put(observation.key)

    observer = face.run(client.observe_matching("line/*", callback))
    assert str(heard(face, unraisable)) == "not complete"
    face.run(client.set("line/1", "value"))
    assert heard(face, seen) == b"line/1"
    assert observer.lost_reason() is None


def test_an_observer_of_a_pattern_closed_by_its_callback_calls_it_no_more(face, connect):
    client, seen, others = connect(), queue.Queue(), queue.Queue()

    def callback(observation):
        seen.put(observation)
        # In asyncio it is awaited.
        return observer.close() if isinstance(observation, statestore.MatchSet) else None

    observer = face.run(client.observe_matching("line/*", callback))
    face.run(client.observe_matching("line/*", others.put))
    assert heard(face, seen) == heard(face, others) == statestore.Complete()
    face.run(client.set("line/1", "value"))
    assert heard(face, seen) == heard(face, others)
    while observer.lost_reason() is None:
        face.turn()
    assert (observer.lost_reason(), observer.error()) == ("closed", None)
    face.run(client.set("line/2", "value"))
    assert heard(face, others).key == b"line/2"
    assert seen.empty()


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
    threads = {seen.get(timeout=HANG_TIMEOUT) for _ in range(60)}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_blocking_calls_are_allowed_in_a_callback(statestore_client):
    seen = queue.Queue()
    statestore_client.observe("key", lambda _: seen.put(statestore_client.get("key")))
    statestore_client.set("key", "value")
    assert seen.get(timeout=HANG_TIMEOUT).value == b"value"


def test_a_closed_observer_calls_no_more(statestore_client):
    seen, other = queue.Queue(), queue.Queue()
    observer = statestore_client.observe("key", seen.put)
    statestore_client.observe("key", other.put)
    statestore_client.set("key", "one")
    assert seen.get(timeout=HANG_TIMEOUT).value == b"one"
    observer.close()
    statestore_client.set("key", "two")
    while other.get(timeout=HANG_TIMEOUT).value != b"two":
        pass
    assert seen.empty()


def test_the_state_of_the_connection(statestore_server, start_server, face, connect):
    server = start_server()
    client = face.run(face.module.connect(server.url, reconnect_delay_max=0.05))
    assert client.state() == statestore.State("connected", None, None)
    states = client.states()
    assert face.run(states.next(timeout=HANG_TIMEOUT)).kind == "connected"
    server.kill()
    state = face.run(states.next(timeout=HANG_TIMEOUT))
    assert state.kind == "reconnecting"
    assert isinstance(state.reason, statestore.StateStoreError)
    face.run(client.close())
    # More attempts may have failed meanwhile; then it ends.
    while (state := face.run(states.next(timeout=HANG_TIMEOUT))).kind != "closed":
        assert (state.kind, state.lost_reason) == ("reconnecting", None)
    assert state.lost_reason == "closed"
    assert face.run(states.next(timeout=HANG_TIMEOUT)) is None
    assert states.lost_reason() == "closed"
    assert client.state().lost_reason == "closed"


def test_only_the_newest_value_waits_during_an_outage(start_server):
    async def main():
        server = start_server()
        async with await aio.connect(server.url, reconnect_delay_max=0.05) as client:
            states = client.states()
            server.kill()
            while (await states.next(timeout=HANG_TIMEOUT)).kind != "reconnecting":
                pass
            first = asyncio.ensure_future(client.set("key", "1", coalesce=True, timeout=HANG_TIMEOUT))
            second = asyncio.ensure_future(client.set("key", "2", coalesce=True, timeout=HANG_TIMEOUT))
            with pytest.raises(statestore.SupersededError) as raised:
                await first
            assert (raised.value.outcome, raised.value.retryable) == ("not_done", False)
            assert client.counters().superseded == 1
            assert not second.done()
        with pytest.raises(statestore.ClosedError):
            await second

    asyncio.run(main())


def test_a_callback_for_the_state(statestore_server):
    seen = queue.Queue()
    client = statestore.connect(statestore_server.url)
    client.states(seen.put)
    assert seen.get(timeout=HANG_TIMEOUT).kind == "connected"
    client.close()


def test_an_observer_reports_why_it_ended(statestore_server, face, connect):
    """Two clients with one id: the second takes the session, and the first gives up for good."""
    first = connect(client_id="twin")
    observer, matching = face.run(first.observe("key")), face.run(first.observe_matching("key*"))
    leaders, holders = face.run(first.election("e").observe()), face.run(first.lease("l").observe())
    assert observer.lost_reason() is None and observer.error() is None
    connect(client_id="twin")
    for ended in (observer, matching, leaders, holders):
        while face.run(ended.next(timeout=HANG_TIMEOUT)) is not None:
            pass
        assert ended.lost_reason() == "taken_over"
        assert isinstance(ended.error(), statestore.ClosedError)
        with pytest.raises(statestore.ClosedError, match="took the session over"):
            face.collect(ended)
    assert first.state().lost_reason == "taken_over"
    with pytest.raises(statestore.ClosedError):
        face.run(first.get("key"))


def test_an_observer_of_a_client_that_gave_up(start_server, face, connect):
    server = start_server()
    client = face.run(face.module.connect(server.url, reconnect_limit=0.1))
    observer = face.run(client.observe("key"))
    guard = face.run(client.lock("door"))
    server.kill()
    with pytest.raises(statestore.StateStoreError):
        face.collect(observer)
    assert observer.lost_reason() == "gave_up"
    assert face.run(guard.lost()) == "gave_up"
    assert client.state().lost_reason == "gave_up"
    face.run(client.close())


def test_an_observer_that_is_closed(face, connect):
    client = connect()
    one, other = face.run(client.observe("key")), face.run(client.observe("key"))
    face.run(one.close())
    assert face.collect(one) == []
    assert (one.lost_reason(), one.error()) == ("closed", None)
    face.run(client.close())
    assert face.collect(other) == []
    assert (other.lost_reason(), other.error()) == ("closed", None)


def test_a_callback_whose_observer_ends_for_another_reason_than_its_close(face, connect, unraisable):
    first = connect(client_id="twin")
    face.run(first.observe("key", print))
    closed = connect()
    face.run(closed.observe("key", print))
    face.run(closed.close())
    connect(client_id="twin")
    while unraisable.empty():
        face.turn()
    assert "took the session over" in str(unraisable.get())
    assert unraisable.empty()


def test_the_holders_of_a_lease(face, connect):
    one, two = connect(), connect()
    observer = face.run(two.lease("door").observe())
    assert face.run(observer.next(timeout=HANG_TIMEOUT)) == statestore.NoHolder()
    guard = face.run(one.lock("door", holder="ann", resume=True))
    assert face.run(observer.next(timeout=HANG_TIMEOUT)).holder.name == b"ann"
    face.run(guard.release())
    assert not face.run(observer.next(timeout=HANG_TIMEOUT))


def test_the_leaders_of_an_election(face, connect):
    one, two = connect(), connect()
    observer = face.run(two.election("chief").observe())
    assert not face.run(observer.next(timeout=HANG_TIMEOUT))
    leadership = face.run(one.election("chief").campaign("ann"))
    while not (leader := face.run(observer.next(timeout=HANG_TIMEOUT))) or leader.value is None:
        pass
    assert leader.value == b"ann"
    assert leadership.guard.is_valid()
    face.run(leadership.resign())
    assert not leadership.guard.is_valid()


def test_a_callback_continues_at_the_operation_limit_and_its_client_can_close(statestore_server, monkeypatch):
    """In asyncio; a thread that is told has its place."""

    def handle(_, context):
        # Not an `Exception`: it ends who reports.
        raise SystemExit(repr(context["exception"]))

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_exception_handler", handle)

    async def full(observer):
        """Waits so often that the client takes no further call."""
        waiting = []
        for _ in range(300):
            waiting += [asyncio.ensure_future(observer.next()) for _ in range(1000)]
            await asyncio.sleep(0)
            if waiting[-1].done():
                return waiting
        raise AssertionError(f"the client takes {len(waiting)} calls")

    async def ended(waiting):
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(result) for result in results} <= {type(None), statestore.QueueFullError}

    async def main():
        seen, waiting = [], []
        client = await aio.connect(statestore_server.url)
        async with aio.connect(statestore_server.url) as other:
            silent = await client.observe("silent")
            told, is_full = asyncio.Event(), asyncio.Event()

            async def callback(observation):
                seen.append(observation.value)
                told.set()
                if len(seen) == 1:
                    waiting.extend(await full(silent))
                    is_full.set()

            await client.observe("key", callback, overflow="all")
            await other.set("key", "one")
            # It is much to do.
            await asyncio.wait_for(is_full.wait(), 10 * HANG_TIMEOUT)
            told.clear()
            await other.set("key", "two")
            # Some of them end.
            await silent.close()
            await asyncio.wait_for(told.wait(), HANG_TIMEOUT)
            assert seen == [b"one", b"two"]
            await ended(waiting)
            waiting = await full(await client.observe("silent"))
            await client.close()
            await ended(waiting)

    asyncio.run(main())


def test_an_observer_with_a_callback_cannot_be_iterated(connect, face):
    client = connect()
    observers = [
        face.run(client.observe("key", lambda _: None)),
        face.run(client.observe_matching("key*", lambda _: None)),
        face.run(client.lease("door").observe(lambda _: None)),
        face.run(client.election("chief").observe(lambda _: None)),
    ]
    if face.name == "blocking":
        observers.append(client.states(lambda _: None))
    for observer in observers:
        for wait in (lambda: observer.next(), lambda: observer.next(timeout=0)):
            with pytest.raises(statestore.InvalidArgumentError, match="has a callback"):
                face.run(wait())
        with pytest.raises(statestore.InvalidArgumentError, match="has a callback"):
            face.collect(observer)


def test_closing_waits_a_bounded_time_for_a_callback(statestore_server):
    begun, released, ended = threading.Event(), threading.Event(), threading.Event()

    def callback_that_hangs(_):
        begun.set()
        released.wait(HANG_TIMEOUT)
        ended.set()

    client = statestore.connect(statestore_server.url)
    client.observe("key", callback_that_hangs)
    client.set("key", "value")
    assert begun.wait(HANG_TIMEOUT)
    with pytest.warns(RuntimeWarning, match="callback .*callback_that_hangs.* has not returned within 2 s"):
        client.close()
    assert not ended.is_set()
    client.close()
    with pytest.raises(statestore.ClosedError):
        client.get("key")
    released.set()
    assert ended.wait(HANG_TIMEOUT)


def test_closing_waits_for_a_callback_that_returns(statestore_server):
    begun, ended = threading.Event(), threading.Event()
    closing = threading.Event()

    def callback(_):
        begun.set()
        closing.wait(HANG_TIMEOUT)
        ended.set()

    client = statestore.connect(statestore_server.url)
    client.observe("key", callback)
    client.set("key", "value")
    assert begun.wait(HANG_TIMEOUT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threading.Timer(0.05, closing.set).start()
        client.close()
    assert ended.is_set()
