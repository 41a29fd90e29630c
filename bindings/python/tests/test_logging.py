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
