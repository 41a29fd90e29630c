"""Any keys and values."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import statestore
from statestore import aio
from statestore.testing import Server

keys = st.binary(min_size=1, max_size=300) | st.text(min_size=1).filter(lambda key: encodes(key))
values = st.binary(max_size=5000) | st.text().filter(lambda value: encodes(value))
SETTINGS = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def encodes(text):
    try:
        return bool(text.encode()) or True
    except UnicodeEncodeError:
        return False


def raw(data):
    return data.encode() if isinstance(data, str) else data


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with statestore.connect(server.url) as client:
        yield client


@SETTINGS
@given(key=keys, value=values)
def test_a_stored_value_is_returned(client, key, value):
    outcome = client.set(key, value)
    assert client.get(key) == statestore.Entry(raw(value), outcome.version)
    assert client.get_many([key, raw(key)]) == [client.get(key)] * 2
    assert not client.vdel(key, raw(value) + b"x")
    assert client.vdel(key, value)
    assert client.get(key) is None


@SETTINGS
@given(pairs=st.dictionaries(keys.map(raw), values, max_size=20))
def test_a_scan_finds_every_key(client, pairs):
    for key, value in pairs.items():
        client.set(key, value)
    assert sorted(client.scan("*")) == sorted(pairs)
    for key in pairs:
        client.delete(key)


@settings(max_examples=50, deadline=None)
@given(pairs=st.dictionaries(keys.map(raw), values, max_size=50))
def test_the_same_in_asyncio(server, pairs):
    async def main():
        async with aio.connect(server.url) as client:
            await asyncio.gather(*(client.set(key, value) for key, value in pairs.items()))
            entries = await client.get_many(pairs)
            assert [entry.value for entry in entries] == [raw(value) for value in pairs.values()]
            assert all(await asyncio.gather(*(client.delete(key) for key in pairs)))

    asyncio.run(main())


@SETTINGS
@given(
    argument=st.one_of(
        st.none(),
        st.integers(),
        st.floats(),
        st.booleans(),
        st.lists(st.integers()),
        st.dictionaries(st.text(), st.text()),
    )
)
def test_a_key_of_a_wrong_type_is_a_type_error(client, argument):
    with pytest.raises(TypeError, match="key"):
        client.get(argument)


@SETTINGS
@given(timeout=st.one_of(st.floats(), st.integers(), st.timedeltas()))
def test_any_time_is_taken_or_refused(client, timeout):
    try:
        client.get("key", timeout=timeout)
    except (ValueError, TimeoutError):
        pass
    assert client.get("key") is None


@SETTINGS
@given(text=st.text())
def test_any_text_is_a_version_or_refused(text):
    try:
        version = statestore.Hlc(text)
    except ValueError:
        return
    assert statestore.Hlc(str(version)) == version
