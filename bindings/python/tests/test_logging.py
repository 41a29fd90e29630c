"""What the library logs goes to the logger `statestore`, without keys, values or credentials."""

import logging
import subprocess
import sys
import time

import statestore


def test_a_lost_connection_is_logged(caplog, start_server):
    server = start_server()
    with caplog.at_level(logging.DEBUG, logger="statestore"):
        client = statestore.connect(server.url, password="hush", user_name="me", reconnect_delay_max=0.05)
        client.set("secret-key", "secret-value")
        server.kill()
        deadline = time.monotonic() + 30
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.01)
        client.close()
    assert caplog.records
    for record in caplog.records:
        assert record.name.split(".")[0] == "statestore"
        for secret in ("secret", "hush"):
            assert secret not in record.getMessage()


def test_without_logging_set_up_nothing_is_written_to_standard_error(statestore_server):
    """As `logging` asks of libraries: otherwise warnings go to its handler of last resort."""
    program = """if True:
        import logging, statestore, sys
        with statestore.connect(sys.argv[1]):
            logging.getLogger("statestore.client").error("lost")
            logging.getLogger("another").error("shown")
    """
    command = [sys.executable, "-c", program, statestore_server.url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "shown\n")


def test_the_level_counts_when_a_client_is_connected(caplog, start_server):
    server = start_server()
    with caplog.at_level(logging.CRITICAL, logger="statestore"):
        client = statestore.connect(server.url, reconnect_delay_max=0.05)
        states = client.states()
        assert next(states).kind == "connected"
        server.kill()
        assert next(states).kind == "reconnecting"
        client.close()
    assert not [record for record in caplog.records if record.levelno < logging.ERROR]


def test_a_recovery_is_logged_as_its_loss_and_each_cause_of_failed_attempts_once(caplog, start_server):
    server = start_server()
    with caplog.at_level(logging.WARNING, logger="statestore"):
        client = statestore.connect(server.url, reconnect_delay_min=0.01, reconnect_delay_max=0.01)
        states = client.states()
        assert next(states).kind == "connected"
        server.kill()
        # Each failed attempt is a state.
        failed = [next(states) for _ in range(6)]
        assert {state.kind for state in failed} == {"reconnecting"}
        again = start_server("--listen", f"tcp://127.0.0.1:{server.port}")
        while next(states).kind != "connected":
            pass
        assert client.get("key") is None
        client.close()
        again.stop()
    records = [record for record in caplog.records if record.levelno == logging.WARNING]
    messages = [record.getMessage() for record in records]
    assert messages[0].startswith("the connection to the broker is lost")
    assert messages[-1].startswith("connected to the broker again")
    between = messages[1:-1]
    assert between and all(message.startswith("an attempt to connect to the broker failed") for message in between)
    assert len(between) == len(set(between)), "once for each cause"
    assert len(between) < 6
    for record in records:
        assert (record.name, record.module, record.threadName) == ("statestore.client.driver", "driver", "statestore")
        assert record.filename == "driver.rs" and record.lineno > 1
