#!/usr/bin/env python3
"""Eclipse's interoperability suite for MQTT 5 (`interoperability/client_test5.py` of paho.mqtt.testing) against `statestored`:

    git clone https://github.com/eclipse/paho.mqtt.testing
    STATESTORED_BIN=target/debug/statestored python3 tests/mqtt/eclipse.py paho.mqtt.testing

It has no package, and its licence is its own, so it is not part of this repository. `statestored` announces in CONNACK that it has no QoS 2, no
retained messages and no shared subscriptions. The suite does not read that, and uses the first two nearly everywhere. So each test
runs with messages of QoS 2 sent with QoS 1, and without the flag for retained messages; what is left after that must hold, but for
the tests of `NOT_ANNOUNCED`, which must fail: one that does not is no longer in the right place there.
"""

import argparse
import contextlib
import io
import logging
import multiprocessing
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from server import Server

# What cannot hold, and why not: it asks for what is not announced, for what a server may leave out, or for what is not in MQTT.
NOT_ANNOUNCED = {
    # It waits for the end that follows more messages than the server's Receive Maximum; those of QoS 1 are acknowledged at once.
    "flow_control2": "not announced: QoS 2",
    # Its messages have to arrive with QoS 2.
    "overlapping_subscriptions": "not announced: QoS 2",
    "payload_format": "not announced: QoS 2",
    "user_properties": "not announced: QoS 2",
    "retained_message": "not announced: retained messages",
    # It wants to see the flag of a retained message again, as published.
    "subscribe_options": "not announced: retained messages",
    "shared_subscriptions": "not announced: shared subscriptions",
    # It wants the server to set its own keep-alive, of 60 s, and to send topic aliases. A server may; this one does neither.
    "server_keep_alive": "left out: Server Keep Alive",
    "server_topic_alias": "left out: aliases of the server's",
    # It wants a policy that refuses the topic filter `test/nosubscribe`; this server has none.
    "subscribe_failure": "left out: a policy",
    # Its client takes no Reason String in a PUBACK (MQTT 5, 3.4.2.2.2).
    "maximum_packet_size": "a fault of the suite's client",
}

# Longer than any of them takes, in seconds; some wait for ever, and catch everything.
HANG_TIMEOUT = 90


def load(folder):
    """The module of the suite."""
    place = folder / "interoperability"
    if not (place / "client_test5.py").is_file():
        raise SystemExit(f"{folder} has no interoperability/client_test5.py: is it a clone of paho.mqtt.testing?")
    sys.path.insert(0, str(place))
    import client_test5

    return client_test5


class Capped:
    """Clients of the suite, which ask for no more than the server has; `uses` is what they would have asked for."""

    def __init__(self, client):
        self.uses = set()
        publish, connect = client.publish, client.connect

        def capped_publish(this, topic, payload, qos=0, retained=False, properties=None):
            if qos == 2:
                self.uses.add("QoS 2")
            if retained:
                self.uses.add("retained")
            return publish(this, topic, payload, min(qos, 1), False, properties)

        def capped_connect(this, *args, **options):
            if options.get("willRetain"):
                self.uses.add("retained")
                options["willRetain"] = False
            # It is what they ask for if nothing is said.
            if options.get("willFlag") and options.get("willQoS", 2) == 2:
                self.uses.add("QoS 2")
            options["willQoS"] = min(options.get("willQoS", 2), 1)
            return connect(this, *args, **options)

        client.publish, client.connect = capped_publish, capped_connect


def run(suite, name, told):
    """Runs a test, and tells whether it holds, what it would have asked for, and what is wrong."""
    lowered = Capped(suite.mqtt_client.Client)
    result = unittest.TestResult()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        unittest.TestSuite([suite.Test(f"test_{name}")]).run(result)
    told.send((result.wasSuccessful(), sorted(lowered.uses), [text for _, text in result.failures + result.errors]))


def judge(suite, name):
    """Runs a test in a process of its own, which is killed if it does not end."""
    receiver, told = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=run, args=(suite, name, told))
    process.start()
    told.close()
    try:
        return receiver.recv() if receiver.poll(HANG_TIMEOUT) else (False, [], [f"it does not end within {HANG_TIMEOUT} s"])
    except EOFError:
        return False, [], ["its process ended"]
    finally:
        process.kill()
        process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="a clone of paho.mqtt.testing")
    parser.add_argument("tests", nargs="*", help="names of tests, without `test_` (default: all)")
    options = parser.parse_args()
    suite = load(options.folder)
    server = Server()
    suite.host, suite.port = "127.0.0.1", server.port
    suite.topic_prefix = "client_test5/"
    logging.getLogger().setLevel(logging.CRITICAL)
    all_names = [name.removeprefix("test_") for name in unittest.defaultTestLoader.getTestCaseNames(suite.Test)]
    wrong = []
    for name in options.tests or all_names:
        holds, uses, problems = judge(suite, name)
        excuse = NOT_ANNOUNCED.get(name)
        outcome = "holds" if holds else excuse or "FAILED"
        print(f"{name:32} {outcome:40} {', '.join(uses)}", flush=True)
        if holds == (excuse is not None):
            wrong.append(name)
            print(*problems, sep="\n", flush=True)
    server.kill()
    if wrong:
        raise SystemExit(f"not as it should be: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
