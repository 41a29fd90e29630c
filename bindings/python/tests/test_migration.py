"""Arguments of other libraries are refused with what replaces them."""

import asyncio
import contextlib
import math
import warnings

import pytest

import statestore
from statestore import aio


@pytest.mark.parametrize(
    ("argument", "replaced"),
    [
        ({"ex": 60}, r"pass expires_in=… in seconds"),
        ({"px": 60_000}, r"pass expires_in=… in seconds, not milliseconds"),
        ({"exat": 1}, r"pass expires_in=…, the seconds from now on"),
        ({"nx": True}, r'pass condition="if_absent"'),
        ({"keepttl": True}, r"pass a function to update\(key, change\)"),
    ],
    ids=repr,
)
def test_options_of_redis_for_set(face, connect, argument, replaced):
    client = connect()
    message = rf"set\(\) got an unexpected keyword argument '{next(iter(argument))}'; {replaced}; see docs/migration.md$"
    with pytest.raises(TypeError, match=message):
        face.run(client.set("key", "v", **argument))
    with pytest.raises(TypeError, match=message):
        client.pipeline().set("key", "v", **argument)
    assert face.run(client.exists("key")) is False


def test_an_unknown_option_has_no_hint(face, connect):
    with pytest.raises(TypeError, match=r"^Client.set\(\) got an unexpected keyword argument 'colour'$"):
        face.run(connect().set("key", "v", colour="red"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 1}, r"timeout, the limit of each request, without wait; pass wait=…"),
        ({"blocking_timeout": 1}, r"'blocking_timeout'; pass wait=… in seconds"),
        ({"blocking": False}, r"'blocking'; pass wait=0 for one attempt"),
        ({"expire": 10}, r"'expire'; pass duration=… in seconds"),
    ],
    ids=repr,
)
def test_options_of_other_libraries_for_a_lock(face, connect, options, message):
    client = connect()
    with pytest.raises(TypeError, match=rf"^Client.lock\(\) got .*{message}.*docs/migration.md$"):
        face.run(client.lock("name", **options))
    assert face.run(client.exists("name")) is False


def test_the_time_out_of_a_lock_is_accepted_with_its_wait(face, connect):
    client = connect()
    for wait in (0, 5, math.inf):
        face.run(face.run(client.lock("name", timeout=5, wait=wait)).release())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"host": "localhost", "port": 1883}, r"'(host|port)'; host and port are in the URL: connect\('mqtt://HOST:1883'\)"),
        ({"ssl": True}, r"'ssl'; the URL tells: connect\('mqtts://HOST'\)"),
        ({"decode_responses": True}, r"'decode_responses'; pass encoding='utf-8'"),
        ({"socket_timeout": 1}, r"'socket_timeout'; pass request_timeout=…"),
    ],
    ids=repr,
)
def test_settings_of_other_libraries(face, settings, message):
    with pytest.raises(TypeError, match=rf"^connect\(\) got an unexpected keyword argument {message}"):
        face.run(face.module.connect(**settings))


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (7, r"not int"),
        (1.5, r"not float"),
        (True, r"not bool"),
        ({"a": 1}, r"not dict"),
        (["a"], r"not list"),
    ],
    ids=repr,
)
def test_values_that_are_no_text(face, connect, value, hint):
    conversion = r"str\(\)" if isinstance(value, (int, float)) else r"json.dumps\(\)"
    client = connect()
    with pytest.raises(TypeError, match=rf"^value must be str, bytes, bytearray or memoryview \(convert .*{conversion}.*, {hint}$"):
        face.run(client.set("key", value))
    with pytest.raises(TypeError, match="convert"):
        face.run(client.update("key", lambda _: value))


def pipe(face, pipeline, work):
    """Runs work in the block of a pipeline."""
    if face.name == "blocking":
        with pipeline as entered:
            return work(entered)

    async def entered():
        async with pipeline as entered:
            result = work(entered)
            return await result if hasattr(result, "__await__") else result

    return face.run(entered())


def test_a_pipeline_is_a_context_manager(face, connect):
    client = connect()
    outcome, entry = pipe(face, client.pipeline(), lambda pipeline: pipeline.set("key", "v").get("key").execute())
    assert outcome.applied and entry.value == b"v"


def test_leaving_the_block_of_a_pipeline_drops_what_was_not_executed(face, connect):
    client = connect()
    pipeline = client.pipeline()
    with pytest.warns(RuntimeWarning, match="2 requests of a pipeline were not executed") as warned:
        pipe(face, pipeline, lambda pipeline: pipeline.set("key", "v").get("key"))
    assert warned[0].filename == __file__
    assert len(pipeline) == 0

    def fail(pipeline):
        pipeline.set("key", "v")
        raise LookupError

    with warnings.catch_warnings(), pytest.raises(LookupError):
        warnings.simplefilter("error")
        pipe(face, pipeline, fail)
    assert len(pipeline) == 0
    assert face.run(client.exists("key")) is False


def test_asyncio_objects_close_in_aclosing(statestore_server):
    async def run():
        async with contextlib.aclosing(await aio.connect(statestore_server.url)) as client:
            async with contextlib.aclosing(await client.observe("key")) as observer:
                pass
            assert observer.lost_reason() == "closed"
            async with contextlib.aclosing(await client.mirror("*")) as mirror:
                pass
            assert mirror.lost_reason() == "closed"
        with pytest.raises(statestore.ClosedError):
            await client.get("key")
        await client.aclose(timeout=1)

    asyncio.run(run())
