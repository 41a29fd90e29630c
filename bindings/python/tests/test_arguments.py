"""What is refused, and how that is said; the same in both faces."""

import asyncio
import math
import socket
import threading
from datetime import timedelta

import pytest

import statestore
from statestore import ClosedError, InvalidArgumentError, LockLostError, _native, aio

WRONG_TYPES = [
    ("get", (1,), {}, "key"),
    ("get", (None,), {}, "key"),
    ("get", ("key",), {"timeout": "soon"}, "timeout"),
    ("get", ("key",), {"timeout": True}, "timeout"),
    ("get_many", (1,), {}, "keys"),
    ("get_many", ("key",), {}, "keys"),
    ("get_many", ([1],), {}, "keys"),
    ("set_many", (1,), {}, "values"),
    ("set_many", ("ab",), {}, "values"),
    ("set_many", (["ab"],), {}, "values"),
    ("set_many", ([("a",)],), {}, "values"),
    ("set_many", ([("a", "b", "c")],), {}, "values"),
    ("set_many", ({1: "v"},), {}, "key"),
    ("set_many", ({"key": 1.5},), {}, "value"),
    ("set_many", ({},), {"persist": 1}, "persist"),
    ("delete_many", ("key",), {}, "keys"),
    ("delete_many", ([],), {"retry": 1}, "retry"),
    ("set", ("key", 1.5), {}, "value"),
    ("set", ("key", ["v"]), {}, "value"),
    ("set", ("key", "v"), {"condition": 1}, "condition"),
    ("set", ("key", "v"), {"expires_in": b"1"}, "expires_in"),
    ("set", ("key", "v"), {"fencing_token": "1:0:a"}, "fencing_token"),
    ("set", ("key", "v"), {"persist": "yes"}, "persist"),
    ("set", ("key", "v"), {"coalesce": 1}, "coalesce"),
    ("set", ("key", "v"), {"retry": 1}, "retry"),
    ("delete", (3,), {}, "key"),
    ("vdel", ("key", 3), {}, "value"),
    ("observe", ("key", "callback"), {}, "callback"),
    ("observe", ("key",), {"overflow": 1.5}, "overflow"),
    ("observe", ("key",), {"initial": 1}, "initial"),
    ("observe_matching", (3,), {}, "pattern"),
    ("observe_matching", ("k*", "callback"), {}, "callback"),
    ("observe_matching", ("k*",), {"refresh": "soon"}, "refresh"),
    ("observe_matching", ("k*",), {"max_keys": "many"}, "max_keys"),
    ("mirror", (3,), {}, "pattern"),
    ("mirror", ("k*",), {"refresh": "soon"}, "refresh"),
    ("mirror", ("k*",), {"max_keys": "many"}, "max_keys"),
    ("mirror", ("k*",), {"max_bytes": 1.5}, "max_bytes"),
    ("update", ("key", b"value"), {}, "change"),
    ("scan", (3,), {}, "pattern"),
    ("scan_entries", (3,), {}, "pattern"),
    ("scan_entries", ("k*",), {"fallback": 1}, "fallback"),
    ("lock", (3,), {}, "name"),
    ("lock", ("name",), {"holder": 3}, "holder"),
    ("lock", ("name",), {"renewal": []}, "renewal"),
    ("lock", ("name",), {"wait": "long"}, "wait"),
    ("lease", (3,), {}, "name"),
    ("election", (3,), {}, "name"),
    ("states", (3,), {}, "callback"),
]
BAD_VALUES = [
    ("get", ("",), {}, "key"),
    ("get", ("key",), {"timeout": -1}, "timeout"),
    ("get", ("key",), {"timeout": float("nan")}, "timeout"),
    ("get", ("key",), {"timeout": float("-inf")}, "timeout"),
    ("get", ("key",), {"timeout": timedelta(seconds=-1)}, "timeout"),
    ("set", ("key", "v"), {"condition": "sometimes"}, "condition"),
    ("set", ("key", "v"), {"retry": "maybe"}, "retry"),
    ("set", ("key", "v"), {"expires_in": 0}, "expire"),
    ("observe", ("key",), {"overflow": "most"}, "overflow"),
    ("observe", ("key",), {"overflow": -1}, "overflow"),
    ("observe_matching", ("",), {}, "pattern"),
    ("observe_matching", ("k*",), {"refresh": -1}, "refresh"),
    ("observe_matching", ("k*",), {"refresh": math.inf}, "refresh"),
    ("observe_matching", ("k*",), {"max_keys": -1}, "max_keys"),
    ("mirror", ("",), {}, "pattern"),
    ("mirror", ("k*",), {"max_keys": -1}, "max_keys"),
    ("lock", ("name",), {"renewal": "often"}, "renewal"),
    ("lock", ("name",), {"duration": 0.01}, "lease"),
    ("lock", ("name",), {"holder": ""}, "holder"),
    ("lease", ("",), {}, "name"),
]


def named(cases):
    return [pytest.param(*case, id=f"{case[0]}{case[1]}{case[2] or ''}") for case in cases]


@pytest.mark.parametrize(("call", "arguments", "options", "name"), named(WRONG_TYPES))
def test_a_wrong_type_is_a_type_error_that_names_the_argument(face, connect, call, arguments, options, name):
    client = connect()
    with pytest.raises(TypeError, match=name):
        face.run(getattr(client, call)(*arguments, **options))


@pytest.mark.parametrize(("call", "arguments", "options", "name"), named(BAD_VALUES))
def test_a_bad_value_is_a_value_error(face, connect, call, arguments, options, name):
    client = connect()
    with pytest.raises(ValueError, match=name) as raised:
        face.run(getattr(client, call)(*arguments, **options))
    assert isinstance(raised.value, InvalidArgumentError)
    assert raised.value.outcome == "not_done"


@pytest.mark.parametrize(
    ("arguments", "settings", "name"),
    [
        ((), {}, "URL"),
        (("mqtt://localhost",), {"env": True}, "URL"),
        ((1,), {}, "url"),
        (("mqtt://localhost",), {"client_id": 1}, "client_id"),
        (("mqtt://localhost",), {"max_in_flight": "many"}, "max_in_flight"),
        (("mqtt://localhost",), {"keep_alive": "60"}, "keep_alive"),
        (("mqtt://localhost",), {"password": 1}, "password"),
        (("mqtt://localhost",), {"ca_file": 1}, "ca_file"),
        (("mqtt://localhost",), {"colour": "red"}, "colour"),
    ],
)
def test_settings_of_a_wrong_type(face, arguments, settings, name):
    with pytest.raises(TypeError, match=name):
        face.run(face.module.connect(*arguments, **settings))


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("http://localhost", {}),
        ("mqtt://localhost?colour=red", {}),
        ("mqtt://localhost", {"max_in_flight": -1}),
        ("mqtt://localhost", {"max_in_flight": 1 << 32}),
        ("mqtt://localhost", {"client_id": "a+b"}),
        ("mqtt://localhost", {"connect_limit": math.nan}),
        ("mqtt://localhost", {"connect_limit": -math.inf}),
        ("mqtt://localhost", {"reconnect_limit": -1}),
        ("mqtt://localhost", {"connect_timeout": math.inf}),
        ("mqtt://localhost", {"password": "a", "password_file": "b"}),
        ("mqtts://localhost", {"ca_file": "/nonexistent/ca.pem"}),
    ],
)
def test_settings_with_a_bad_value(face, url, settings):
    with pytest.raises(ValueError):
        face.run(face.module.connect(url, **settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"client_ib": "x"}, r"connect\(\) got an unexpected keyword argument 'client_ib'; did you mean 'client_id'\?"),
        ({"clientId": "x"}, r"connect\(\) got an unexpected keyword argument 'clientId'; did you mean 'client_id'\?"),
        ({"tiemout": 2}, r"connect\(\) got an unexpected keyword argument 'tiemout'"),
        ({"colour": "red"}, r"connect\(\) got an unexpected keyword argument 'colour'$"),
    ],
)
def test_a_setting_that_does_not_exist(face, settings, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        face.run(face.module.connect("mqtt://localhost", **settings))
    with pytest.raises(TypeError, match=r"^connect\(\) too many positional arguments"):
        face.run(face.module.connect("mqtt://localhost", "mqtt://localhost", **settings))


def test_a_time_out_of_zero(face, connect):
    with pytest.raises(TimeoutError, match="its time-out is zero, so nothing was sent$") as raised:
        face.run(connect().get("key", timeout=0))
    assert raised.value.outcome == "not_done"


def test_an_unknown_encoding(face, statestore_server):
    with pytest.raises(LookupError, match="klingon"):
        face.run(face.module.connect(statestore_server.url, encoding="klingon"))


def test_an_unreachable_broker(face):
    with pytest.raises(ConnectionError) as raised:
        face.run(face.module.connect("unix:///nonexistent/socket"))
    assert raised.value.kind == "Unreachable"
    assert raised.value.retryable


@pytest.mark.parametrize("limit", [math.inf, 3600, timedelta(hours=1)], ids=repr)
def test_a_server_that_comes_later(face, start_server, limit):
    """The first attempt reaches a listener that hangs up; only then a server takes the port over."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def make_room():
        listener.accept()[0].close()
        listener.close()
        start_server("--listen", f"tcp://127.0.0.1:{port}")

    room = threading.Thread(target=make_room)
    room.start()
    client = face.run(face.module.connect(f"mqtt://127.0.0.1:{port}", connect_limit=limit, reconnect_limit=limit))
    room.join()
    assert face.run(client.set("key", "value")).applied
    face.run(client.close())


def test_the_environment(face, statestore_server, monkeypatch):
    with pytest.raises(ValueError, match="AIO_BROKER_HOSTNAME"):
        face.run(face.module.connect(env=True))
    monkeypatch.setenv("AIO_BROKER_HOSTNAME", statestore_server.host)
    monkeypatch.setenv("AIO_BROKER_TCP_PORT", str(statestore_server.port))
    monkeypatch.setenv("AIO_MQTT_USE_TLS", "false")
    monkeypatch.setenv("AIO_MQTT_CLIENT_ID", "from-the-environment")
    client = face.run(face.module.connect(env=True))
    assert client.client_id() == "from-the-environment"
    face.run(client.close())


def test_a_setting_replaces_that_of_the_url(face, statestore_server):
    client = face.run(face.module.connect(statestore_server.url + "?client_id=one", client_id="two"))
    assert client.client_id() == "two"
    face.run(client.close())


def test_every_call_of_a_closed_client_raises_closed_error(face, connect):
    client = connect()
    guard = face.run(client.lock("held"))
    lease = client.lease("lease")
    election = client.election("election")
    face.run(client.close())
    face.run(client.close())
    calls = [
        lambda: client.get("k"),
        lambda: client.get_many(["k"]),
        lambda: client.set("k", "v"),
        lambda: client.set_many({"k": "v"}),
        lambda: client.delete("k"),
        lambda: client.delete_many(["k"]),
        lambda: client.vdel("k", "v"),
        lambda: client.observe("k"),
        lambda: client.observe_matching("k*"),
        lambda: client.update("k", lambda _: None),
        lambda: client.lock("l"),
        lambda: client.scan("*"),
        lambda: client.scan_entries("*"),
        lambda: client.lease("l"),
        lambda: client.election("l"),
        client.states,
        lease.acquire,
        lease.holder,
        lambda: election.campaign("v"),
        election.leader,
    ]
    for call in calls:
        with pytest.raises(ClosedError) as raised:
            face.run(call())
        assert raised.value.outcome == "not_done"
    assert not guard.is_valid()
    with pytest.raises((LockLostError, ClosedError)):
        face.run(guard.set("k", "v"))


def test_a_closed_client_keeps_its_id_and_counters(face, connect):
    client = connect(client_id="known")
    face.run(client.get("key"))
    face.run(client.close())
    assert client.client_id() == "known"
    assert client.state().kind == "closed"
    assert client.counters().completed == 1


def test_bytes_in_every_form(face, connect):
    client = connect()
    for value in (b"\xff\x00", bytearray(b"\xff\x00"), memoryview(b"\xff\x00")):
        face.run(client.set(value, value))
        assert face.run(client.get(b"\xff\x00")).value == b"\xff\x00"
    face.run(client.set("schlüssel", "wert"))
    assert face.run(client.get("schlüssel".encode())).value == b"wert"


def test_an_encoding_is_that_of_both_ways(face, connect):
    client, raw = connect(encoding="latin-1"), connect()
    face.run(client.set("ä", "ö"))
    assert face.run(raw.get(b"\xe4")).value == b"\xf6"
    assert face.run(client.get("ä")).value == "ö"
    assert face.collect(client.scan("*")) == ["ä"]
    with pytest.raises(UnicodeEncodeError):
        face.run(client.set("key", "☃"))


def test_a_value_that_does_not_decode_raises_and_observations_continue(face, connect):
    client = connect(encoding="utf-8")
    observer = face.run(client.observe("key", overflow="all"))
    face.run(client.set("key", b"\xff"))
    face.run(client.set("key", "text"))
    with pytest.raises(UnicodeDecodeError):
        face.run(observer.next(timeout=30))
    assert face.run(observer.next(timeout=30)).value == "text"
    assert observer.key == "key"


def test_a_key_that_does_not_decode_loses_no_other_key(face, connect):
    client = connect(encoding="utf-8")
    keys = ["a", b"\xff", "b", b"\xfe", b"\xfd", "c"]
    for key in keys:
        face.run(client.set(key, "value"))
    scan, found, broken = client.scan("*"), [], []
    while True:
        try:
            page = face.run(scan.next_page())
        except UnicodeDecodeError as error:
            broken.append(error.object)
            continue
        if page is None:
            break
        found.extend(page)
    assert sorted(found) == ["a", "b", "c"]
    assert sorted(broken) == [b"\xfd", b"\xfe", b"\xff"]
    # An iteration goes on behind it as well.
    keys, found, broken = client.scan("*"), [], 0
    while True:
        try:
            face.collect(keys, found)
            break
        except UnicodeDecodeError:
            broken += 1
    assert (sorted(found), broken) == (["a", "b", "c"], 3)


def test_times_are_seconds_or_timedeltas(face, connect):
    client = connect()
    observer = face.run(client.observe("key"))
    for timeout in (0, 0.01, timedelta(milliseconds=10)):
        with pytest.raises(TimeoutError):
            face.run(observer.next(timeout=timeout))


def test_the_client_of_another_loop(statestore_server):
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()

    async def connect():
        return await aio.connect(statestore_server.url)

    async def get(client):
        return await client.get("key")

    client = first.run_until_complete(connect())
    with pytest.raises(RuntimeError, match="another event loop"):
        second.run_until_complete(get(client))
    assert first.run_until_complete(get(client)) is None
    first.close()
    with pytest.raises(RuntimeError, match="is closed"):
        second.run_until_complete(get(client))
    second.close()
    assert not _native.close_each([client], 10.0)


def test_errors_about_arguments_name_the_class(statestore_client):
    for call in (statestore_client.lock, statestore_client.lease, statestore_client.transact, statestore_client.get):
        with pytest.raises(TypeError, match=rf"^Client\.{call.__name__}\(\) missing 1 required positional argument"):
            call()


def test_other_event_loops_than_those_of_asyncio_are_refused(statestore_aio_connect):
    # As trio runs a coroutine.
    with pytest.raises(RuntimeError, match=r"which statestore\.aio needs; with anyio, choose its backend asyncio"):
        statestore_aio_connect().__await__().send(None)


def test_no_loop_runs(statestore_server):
    with pytest.raises(RuntimeError, match="no running event loop"):
        aio.connect(statestore_server.url).send(None)


def test_closing_in_a_callback_is_refused(statestore_server):
    import queue

    errors = queue.Queue()
    client = statestore.connect(statestore_server.url)

    def callback(_):
        try:
            client.close()
        except statestore.WrongThreadError as error:
            errors.put(error)

    client.observe("key", callback)
    client.set("key", "value")
    assert errors.get(timeout=30).kind == "WrongThread"
    client.close()


def test_a_wait_may_be_endless(connect, face):
    client = connect()
    assert face.run(client.get("key", timeout=math.inf)) is None
    guard = face.run(client.lock("door", wait=math.inf))
    face.run(guard.release())
