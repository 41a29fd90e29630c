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
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from server import Server

# What cannot hold without what is not announced.
NOT_ANNOUNCED = {
    "retained_message": "retained messages",
    "shared_subscriptions": "shared subscriptions",
}


def load(folder):
    """The module of the suite."""
    place = folder / "interoperability"
    if not (place / "client_test5.py").is_file():
        raise SystemExit(f"{folder} has no interoperability/client_test5.py: is it a clone of paho.mqtt.testing?")
    sys.path.insert(0, str(place))
    import client_test5

    return client_test5


class Lowered:
    """Clients of the suite, which ask for no more than the server has; `uses` is what they would have asked for."""

    def __init__(self, client):
        self.uses = set()
        publish, connect = client.publish, client.connect

        def lowered_publish(this, topic, payload, qos=0, retained=False, properties=None):
            if qos == 2:
                self.uses.add("QoS 2")
            if retained:
                self.uses.add("retained")
            return publish(this, topic, payload, min(qos, 1), False, properties)

        def lowered_connect(this, *args, **options):
            if options.get("willRetain"):
                self.uses.add("retained")
                options["willRetain"] = False
            if options.get("willQoS") == 2:
                self.uses.add("QoS 2")
                options["willQoS"] = 1
            return connect(this, *args, **options)

        client.publish, client.connect = lowered_publish, lowered_connect


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
    lowered = Lowered(suite.mqtt_client.Client)
    names = options.tests or [name.removeprefix("test_") for name in unittest.defaultTestLoader.getTestCaseNames(suite.Test)]
    wrong = []
    for name in names:
        lowered.uses.clear()
        result, said = unittest.TestResult(), io.StringIO()
        with contextlib.redirect_stdout(said):
            unittest.TestSuite([suite.Test(f"test_{name}")]).run(result)
        holds, excuse = result.wasSuccessful(), NOT_ANNOUNCED.get(name)
        outcome = "holds" if holds else f"not announced: {excuse}" if excuse else "FAILED"
        print(f"{name:32} {outcome:40} {', '.join(sorted(lowered.uses))}", flush=True)
        if holds == (excuse is not None):
            wrong.append(name)
            for _, problem in result.failures + result.errors:
                print(problem)
    server.kill()
    if wrong:
        raise SystemExit(f"not as it should be: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
