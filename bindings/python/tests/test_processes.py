"""What needs a process of its own: Ctrl-C, forks, the end of the interpreter."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import statestore

HANG_TIMEOUT = 60


def script(text, *arguments, timeout=HANG_TIMEOUT):
    """Runs a program; its output."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(text), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done


# Waits in a blocking call, in a program that prints when Ctrl-C ended it.
INTERRUPTED = """
    import faulthandler, os, signal, socket, sys, time
    import statestore

    faulthandler.dump_traceback_later(HANG_TIMEOUT, exit=True)
    url = sys.argv[1]
    client = statestore.connect(url)
    other = statestore.connect(url)
    held = other.lock("held")
    observer = client.observe("key")
    silent = socket.create_server(("127.0.0.1", 0))
    never = f"mqtt://127.0.0.1:{silent.getsockname()[1]}"

    def raised(signum, frame):
        raise KeyboardInterrupt

    def begin():
        print("begins", flush=True)

    signal.signal(signal.SIGINT, raised)
    try:
        CALL
    except KeyboardInterrupt:
        print(time.monotonic())
    else:
        raise SystemExit("it was not interrupted")
    # The client can still be used.
    assert client.set("key", "value").applied
    client.close()
    other.close()
"""
WAITS = {
    "connect": "begin(); statestore.connect(never)",
    "get": "os.kill(int(sys.argv[2]), signal.SIGSTOP); begin(); client.get('key')",
    "lock": "begin(); client.lock('held')",
    "campaign": "begin(); client.election('held').campaign('value')",
    "next": "begin(); observer.next()",
    "iteration": "begin(); next(observer)",
    "matching": "begin(); [None for _ in client.observe_matching('none/*')]",
    "mirror": "mirror = client.mirror('none/*'); mirror.synced(); begin(); next(mirror.changes())",
    "states": "begin(); [None for _ in client.states()]",
    "lost": "begin(); held.lost()",
    "update": "client.update('key', lambda _: (begin(), time.sleep(HANG_TIMEOUT)))",
}


def sleeps(pid):
    """How often the main thread of a process had gone to sleep, if it sleeps; None if it runs."""
    status = Path(f"/proc/{pid}/task/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return fields["voluntary_ctxt_switches"] if fields["State"].split()[0] == "S" else None


def falls_asleep(child):
    """Waits until the main thread of a process sleeps, and slept through from one look to the next, or has ended."""
    deadline = time.monotonic() + HANG_TIMEOUT
    before = None
    while child.poll() is None and ((now := sleeps(child.pid)) is None or now != before):
        assert time.monotonic() < deadline, "it never waited"
        before = now
        time.sleep(0.01)


# Seconds within which a signal ends a wait.
PROMISED = 0.1
# A machine that is busy with other tests may be late; something that is too slow is so each time.
ATTEMPTS = 5


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells whether a thread waits")
@pytest.mark.parametrize("call", WAITS)
def test_ctrl_c_ends_every_blocking_call(call, start_server):
    took = []
    while len(took) < ATTEMPTS and min(took, default=PROMISED) >= PROMISED:
        took.append(interrupted(call, start_server()))
    assert min(took) < PROMISED, took


def interrupted(call, server):
    """How long it took from the signal until a call had ended."""
    text = INTERRUPTED.replace("CALL", WAITS[call]).replace("HANG_TIMEOUT", str(HANG_TIMEOUT))
    if call == "get":
        text = text.replace("print(time", "os.kill(int(sys.argv[2]), signal.SIGCONT); print(time")
    program = [sys.executable, "-c", textwrap.dedent(text), server.url, str(server.pid)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            begun = child.stdout.readline()
            if begun:
                falls_asleep(child)
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
            ended, errors = child.communicate(timeout=HANG_TIMEOUT)
        finally:
            child.kill()
    assert (begun, child.returncode) == ("begins\n", 0), (ended, errors)
    # The clock is the same in all processes.
    return float(ended) - sent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork(statestore_server):
    script(
        """
        import os, sys, threading
        import statestore

        url = sys.argv[1]
        client = statestore.connect(url)
        observer = client.observe("key", print)
        matching = client.observe_matching("line/*")
        mirror = client.mirror("line/*")
        entries = client.scan_entries("line/*")
        guard = client.lock("door")
        busy = threading.Thread(target=lambda: [client.get("key") for _ in range(2000)])
        busy.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                inherited = (guard.is_valid, observer.next, matching.next, entries.next_page, mirror.synced, client.close)
                observe = lambda: client.observe_matching("line/*")
                for call in (lambda: client.get("key"), client.client_id, observe, *inherited):
                    try:
                        call()
                    except statestore.ForkedError as error:
                        assert error.outcome == "not_done"
                    else:
                        os._exit(2)
                with statestore.connect(url) as mine:
                    assert mine.set("child", "was here").applied
                # The end of the interpreter, with the parent's client still there.
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        busy.join()
        assert client.get("child").value == b"was here"
        assert guard.is_valid()
        client.close()
        """,
        statestore_server.url,
    )


def _increment(url, times):
    with statestore.connect(url) as client:
        for _ in range(times):
            client.update("count", lambda old: str(int(old.value if old else 0) + 1))
    return os.getpid()


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_multiprocessing(method, statestore_server, statestore_client):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        pool.starmap(_increment, [(statestore_server.url, 5)] * 4, chunksize=1)
    assert statestore_client.get("count").value == b"20"


def test_errors_cross_processes(statestore_server):
    with multiprocessing.get_context("spawn").Pool(1) as pool, pytest.raises(statestore.ConnectionRefusedError):
        pool.apply(_raise)


def _raise():
    raise statestore.ConnectionRefusedError("no", "not_done", False)


OBSERVE = 'observe("key", callback, overflow="all")'
MATCHING = 'observe_matching("key*", callback)'


@pytest.mark.parametrize(
    ("callback", "observe"),
    [
        ("lambda _: None", OBSERVE),
        ("lambda _: time.sleep(0.5)", OBSERVE),
        ("endless", OBSERVE),
        ("stuck.acquire", OBSERVE),
        ("endless", MATCHING),
    ],
)
def test_the_interpreter_ends_with_open_clients_and_running_callbacks(callback, observe, statestore_server):
    done = script(
        f"""
        import sys, threading, time
        import statestore

        begun = threading.Event()
        stuck = threading.Semaphore(0)

        def endless(_):
            while True:
                time.sleep(0.01)

        def callback(observation):
            begun.set()
            ({callback})(observation)

        client = statestore.connect(sys.argv[1])
        others = [statestore.connect(sys.argv[1]) for _ in range(3)]
        kept = client.{observe}
        guard = client.lock("door")
        for _ in range(3):
            client.set("key", "value")
        assert begun.wait(30)
        print("end")
        """,
        statestore_server.url,
    )
    assert done.stdout == "end\n"
    assert "Fatal" not in done.stderr and "panicked" not in done.stderr


def test_the_interpreter_ends_with_an_open_mirror(statestore_server):
    done = script(
        """
        import sys
        import statestore

        client = statestore.connect(sys.argv[1])
        kept = client.mirror("key*")
        client.set("key", "value")
        kept.synced(timeout=30)
        print("end")
        """,
        statestore_server.url,
    )
    assert (done.stdout, done.stderr) == ("end\n", "")


def test_the_interpreter_ends_with_an_open_client_of_asyncio(statestore_server):
    done = script(
        """
        import asyncio, sys
        from statestore import aio

        kept = []

        async def main():
            client = await aio.connect(sys.argv[1])
            kept.append(client)
            await client.observe("key", print)
            await client.observe_matching("key*", print)
            kept.append(await client.mirror("key*"))
            kept.append(asyncio.ensure_future(client.lock("door")))
            await client.set("key", "value")

        asyncio.run(main())
        print("end")
        """,
        statestore_server.url,
    )
    assert done.stdout.endswith("end\n")
    assert "Fatal" not in done.stderr and "panicked" not in done.stderr
