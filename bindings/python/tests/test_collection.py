"""Objects that refer to themselves through callbacks of their client."""

import gc
import threading
import time
import warnings
import weakref

import pytest

import statestore

HANG_TIMEOUT = 30

WAYS = {
    "observe": lambda client, callback: client.observe("key", callback),
    "observe_matching": lambda client, callback: client.observe_matching("key*", callback),
    "mirror": lambda client, callback: (client.mirror("key*"), client.states(callback)),
    "states": lambda client, callback: client.states(callback),
    "lease": lambda client, callback: client.lease("lease").observe(callback),
    "election": lambda client, callback: client.election("election").observe(callback),
}


class App:
    def __init__(self, url, way):
        self.heard = threading.Event()
        self.client = statestore.connect(url)
        self.observer = WAYS[way](self.client, self.on_change)

    def on_change(self, _):
        self.heard.set()


@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("way", WAYS)
def test_an_object_with_a_client_that_calls_it_is_collected(way, is_closed, statestore_server):
    app = App(statestore_server.url, way)
    if is_closed:
        app.client.close()
    gone = weakref.ref(app)
    del app
    deadline = time.monotonic() + HANG_TIMEOUT
    with warnings.catch_warnings():
        # The client was not closed.
        warnings.simplefilter("ignore", ResourceWarning)
        while gone() is not None:
            # A callback may be running.
            assert time.monotonic() < deadline, gc.get_referrers(gone())
            gc.collect()


def test_a_callback_continues_while_its_client_is_referenced(statestore_server, statestore_client):
    class Listener:
        def __init__(self):
            self.heard = threading.Event()
            # Nothing refers to this object but the client.
            statestore_client.observe("key", lambda _: self.heard.set())

    heard = Listener().heard
    gc.collect()
    statestore_client.set("key", "value")
    assert heard.wait(HANG_TIMEOUT)


def test_a_callback_continues_while_its_observer_is_referenced(statestore_server, statestore_client):
    heard = threading.Event()

    def watch():
        client = statestore.connect(statestore_server.url)
        return client.observe("key", lambda _: heard.set())

    with warnings.catch_warnings():
        # The client was not closed.
        warnings.simplefilter("ignore", ResourceWarning)
        observer = watch()
        gc.collect()
    statestore_client.set("key", "value")
    assert heard.wait(HANG_TIMEOUT)
    observer.close()
