"""The end of the interpreter, and other interpreters beside it."""

import os
import sys
import time

import pytest
from test_processes import HANG_TIMEOUT, script

ATTEMPTS = 5
PATIENCE = 1.0
"""Seconds that the end of the interpreter waits for the thread of the log."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_does_not_wait_for_the_log_thread_of_its_parent(statestore_server):
    took = []
    # A busy machine may hold up one attempt; a child that waits does so each time.
    while len(took) < ATTEMPTS and min(took, default=PATIENCE) >= PATIENCE:
        done = script(
            """
            import os, sys, time
            import statestore

            client = statestore.connect(sys.argv[1])
            began = time.monotonic()
            child = os.fork()
            if child == 0:
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            print(time.monotonic() - began)
            client.close()
            """,
            statestore_server.url,
        )
        took.append(float(done.stdout))
    assert min(took) < PATIENCE, took


@pytest.mark.skipif(sys.platform != "linux", reason="only there the end of the interpreter unwinds threads")
@pytest.mark.parametrize(
    "work",
    [
        "client.update('key', endless)",
        "(client.observe('key', endless), client.set('key', 'value'), threading.Event().wait())",
    ],
    ids=["update", "callback"],
)
def test_the_interpreter_ends_while_daemon_threads_run_python_code(work, statestore_server):
    done = script(
        f"""
        import sys, threading
        import statestore

        begun = threading.Event()

        def endless(_):
            begun.set()
            while True:
                try:
                    while True:
                        pass
                except SystemExit:
                    pass

        client = statestore.connect(sys.argv[1])
        sys.setswitchinterval(1e-6)
        for _ in range(8):
            threading.Thread(target=lambda: {work}, daemon=True).start()
        assert begun.wait({HANG_TIMEOUT})
        print("end")
        """,
        statestore_server.url,
    )
    assert done.stdout == "end\n"
    assert "Fatal" not in done.stderr and "fatal" not in done.stderr, done.stderr


def test_it_cannot_be_imported_in_a_subinterpreter():
    done = script(
        """
        import sys
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import statestore

        text = '''
        try:
            import statestore
        except ImportError as error:
            print(error)
        else:
            print("it was imported")
        '''
        for attempt in (("legacy",), {"isolated": False}, {}):
            try:
                other = interpreters.create(*attempt) if isinstance(attempt, tuple) else interpreters.create(**attempt)
                break
            except TypeError:
                continue
        import textwrap
        interpreters.run_string(other, "import sys; sys.path[:] = " + repr(sys.path) + textwrap.dedent(text))
        interpreters.destroy(other)
        # The main one goes on.
        try:
            statestore.connect("mqtt://localhost:0")
        except statestore.InvalidSettingsError:
            print("end")
        """
    )
    assert done.stdout.startswith("statestore cannot be imported in a subinterpreter"), done
    assert done.stdout.endswith("\nend\n"), done


@pytest.mark.parametrize("place", ["builtins", "statestore._blocking", "statestore.aio"])
def test_a_client_left_at_module_teardown_warns_of_nothing(place, statestore_server):
    done = script(
        f"""
        import asyncio, atexit, builtins, sys

        # Handlers run in the opposite order: this one when all clients were closed, as under a server that skips them.
        @atexit.register
        def connect_late():
            client = statestore.connect(sys.argv[1])
            other = asyncio.new_event_loop().run_until_complete(statestore.aio.connect(sys.argv[1]))
            {place}.kept = [client, client.lock("door"), other]

        import statestore, statestore.aio
        """,
        statestore_server.url,
    )
    assert done.stderr == ""


def test_the_interpreter_ends_although_clocks_are_frozen(statestore_server):
    began = time.monotonic()
    script(
        """
        import sys, threading, time
        import statestore

        begun, stuck = threading.Event(), threading.Semaphore(0)
        client = statestore.connect(sys.argv[1])
        client.observe("key", lambda _: (begun.set(), stuck.acquire()))
        client.set("key", "value")
        assert begun.wait(30)
        # In all modules, as freezegun does it.
        real, now = time.monotonic, time.monotonic()
        for module in list(sys.modules.values()):
            for name, value in list(vars(module).items()):
                if value is real:
                    setattr(module, name, lambda: now)
        """,
        statestore_server.url,
        timeout=HANG_TIMEOUT,
    )
    assert time.monotonic() - began < HANG_TIMEOUT


def test_an_interrupt_within_the_first_call_with_a_time_is_a_keyboard_interrupt(statestore_server):
    done = script(
        """
        import sys
        import statestore

        class Interrupt:
            def find_spec(self, *_):
                raise KeyboardInterrupt

        client = statestore.connect(sys.argv[1])
        sys.meta_path.insert(0, Interrupt())
        try:
            client.set("key", "value", expires_in=2)
        except KeyboardInterrupt:
            pass
        sys.meta_path.pop(0)
        client.close()
        """,
        statestore_server.url,
    )
    assert done.stderr == ""
