"""A program that closes all of its file descriptors, as daemons do."""

import os
import subprocess
import sys

import pytest
from test_processes import HANG_TIMEOUT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="descriptors are numbers only there")

BEGIN = """
import asyncio, os, sys, threading
import statestore
from statestore import aio

# The end of an observer with a callback is reported there.
unraisable = []
sys.unraisablehook = lambda report: unraisable.append(report.exc_value)
url = sys.argv[1]
client, other = statestore.connect(url), statestore.connect(url)
"""
END = """
for each in (client, other):
    each.close()
    each.close()
try:
    new = statestore.connect(url)
except statestore.InternalError as error:
    # The library was built with signals of tokio, which share a descriptor of the process.
    assert "closed the file descriptors" in str(error), error
else:
    assert new.set("key", "value").applied and new.get("key").value == b"value"
    new.close()

    async def use():
        async with aio.connect(url) as client:
            assert (await client.get("key")).value == b"value"

    asyncio.run(use())
assert all(type(error) is statestore.ClosedError for error in unraisable), unraisable
print("end")
"""
ENDS = f"""
ended, results = [], []
seen, closed = threading.Event(), threading.Event()

def wait(call):
    try:
        results.append(call())
    except statestore.StateStoreError as error:
        ended.append(error)

observer = other.observe("key")
called = other.observe("key", lambda observation: seen.set())
guard = other.lock("held")
waits = [
    observer.next,
    guard.lost,
    lambda: client.lock("held"),
    lambda: client.update("key", lambda _: closed.wait() and "v"),
]
threads = [threading.Thread(target=wait, args=[call], daemon=True) for call in waits]
for thread in threads:
    thread.start()
os.closerange(3, 1024)
closed.set()
calls = [
    lambda: client.get("key"),
    lambda: client.set("key", "v"),
    lambda: other.get("key"),
    lambda: guard.set("key", "v"),
]
for call in calls:
    wait(call)
for thread in threads:
    thread.join({HANG_TIMEOUT})
    assert not thread.is_alive()
assert len(ended) + len(results) == len(threads) + len(calls), ended
# The observer has no more observations.
assert results == [None], results
for error in ended:
    assert type(error) is statestore.ClosedError and "closed the file descriptors" in str(error), error
assert not seen.is_set()
assert observer.lost_reason() == called.lost_reason() == "closed"
del guard, observer, called
"""
RACES = """
guard = other.lock("held")
closing = threading.Thread(target=os.closerange, args=[3, 1024])
closing.start()
for call in (lambda: client.lock("held", wait=1), lambda: client.get("key", timeout=1)):
    try:
        call()
    except statestore.ClosedError as error:
        assert "closed the file descriptors" in str(error), error
    except statestore.LockHeldError:
        pass
closing.join()
try:
    client.get("key", timeout=1)
except statestore.ClosedError as error:
    assert "closed the file descriptors" in str(error), error
else:
    raise SystemExit("it has a result")
"""


@pytest.mark.parametrize("middle", [ENDS, RACES], ids=["ends", "races"])
def test_calls_end_when_the_program_has_closed_all_descriptors(middle, statestore_server):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", BEGIN + middle + END, statestore_server.url],
        capture_output=True,
        text=True,
        timeout=2 * HANG_TIMEOUT,
    )
    if "IO Safety violation" in done.stderr:
        pytest.skip("in a debug build, the standard library of Rust aborts when it closes a descriptor that is closed already")
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
    assert "PanicException" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
