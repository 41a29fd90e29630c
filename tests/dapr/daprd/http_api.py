#!/usr/bin/env python3
"""Dapr's state API over HTTP, through a real daprd, the component and the server.

    DAPRD=… STATESTORED=… STATESTORE_DAPR=… python3 tests/dapr/daprd/http_api.py
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

# How long anything may take. Only a failing test waits that long.
PATIENCE = 60

COMPONENT = """\
apiVersion: dapr.io/v1alpha1
kind: Component
metadata:
  name: store
spec:
  type: state.azure.iotoperations
  version: v1
  metadata:
  - name: hostname
    value: 127.0.0.1
  - name: tcpPort
    value: "{port}"
  - name: useTls
    value: "false"
  - name: keyPrefix
    value: name
"""


def free_ports(count):
    """daprd prints no port that it was given by the system, so these are free ones that may be taken in between."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


class StateOverHttp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        cls.processes = []
        cls.addClassCleanup(cls.stop)
        line = cls.start("STATESTORED", "--storage", "memory", "--listen", "tcp://127.0.0.1:0")
        port = line.rsplit(":", 1)[1]
        sockets = folder / "sockets"
        cls.start("STATESTORE_DAPR", "--folder", sockets, "--name", "azure.iotoperations")
        resources = folder / "resources"
        resources.mkdir()
        (resources / "store.yaml").write_text(COMPONENT.format(port=port))
        http, grpc, internal, metrics = free_ports(4)
        os.environ["DAPR_COMPONENTS_SOCKETS_FOLDER"] = str(sockets)
        cls.log = open(folder / "daprd.log", "w+", encoding="utf-8")
        cls.addClassCleanup(cls.log.close)
        cls.processes.append(
            subprocess.Popen(
                [os.environ["DAPRD"], "--mode", "standalone", "--app-id", "trial", "--resources-path", resources]
                + ["--dapr-http-port", str(http), "--dapr-grpc-port", str(grpc), "--dapr-internal-grpc-port", str(internal)]
                + ["--dapr-listen-addresses", "127.0.0.1", "--dapr-internal-grpc-listen-address", "127.0.0.1"]
                + ["--metrics-listen-address", "127.0.0.1", "--metrics-port", str(metrics)],
                stdout=cls.log,
                stderr=cls.log,
            )
        )
        cls.url = f"http://127.0.0.1:{http}/v1.0"
        until = time.monotonic() + PATIENCE
        while not cls.is_ready():
            if time.monotonic() > until or cls.processes[-1].poll() is not None:
                cls.log.seek(0)
                raise AssertionError("daprd does not begin:\n" + cls.log.read())
            time.sleep(0.05)

    @classmethod
    def start(cls, variable, *arguments):
        process = subprocess.Popen([os.environ[variable], *arguments], stdout=subprocess.PIPE, text=True)
        cls.processes.append(process)
        line = process.stdout.readline().strip()
        assert line.startswith("listening on "), line
        return line

    @classmethod
    def stop(cls):
        for process in reversed(cls.processes):
            process.terminate()
            process.wait(PATIENCE)
            if process.stdout:
                process.stdout.close()

    @classmethod
    def is_ready(cls):
        try:
            return urlopen(f"{cls.url}/healthz/outbound", timeout=PATIENCE).status == 204
        except (URLError, ConnectionError):
            return False

    def ask(self, method, path, body=None, **headers):
        """Status, headers and body of an answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(self.url + path, data, {"Content-Type": "application/json", **headers}, method=method)
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.headers, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def save(self, *items):
        return self.ask("POST", "/state/store", list(items))[0]

    def value(self, key):
        status, _, body = self.ask("GET", f"/state/store/{key}")
        return json.loads(body) if status == 200 else None

    def etag(self, key):
        return self.ask("GET", f"/state/store/{key}")[1]["Etag"]

    def test_the_component_is_known_with_what_it_can(self):
        metadata = json.loads(self.ask("GET", "/metadata")[2])
        (store,) = [component for component in metadata["components"] if component["name"] == "store"]
        self.assertEqual(store["type"], "state.azure.iotoperations")
        self.assertLessEqual({"ETAG", "TRANSACTIONAL", "TTL", "ACTOR"}, set(store["capabilities"]))

    def test_a_value_is_saved_read_and_deleted(self):
        self.assertEqual(self.ask("GET", "/state/store/plain")[0], 204)
        self.assertEqual(self.save({"key": "plain", "value": {"a": 1}}), 204)
        self.assertEqual(self.value("plain"), {"a": 1})
        self.assertEqual(self.ask("DELETE", "/state/store/plain")[0], 204)
        self.assertIsNone(self.value("plain"))

    def test_an_etag_that_does_not_match_is_a_conflict(self):
        self.save({"key": "etag", "value": 1})
        old = self.etag("etag")
        self.assertEqual(self.save({"key": "etag", "value": 2, "etag": old}), 204)
        self.assertEqual(self.save({"key": "etag", "value": 3, "etag": old}), 409)
        self.assertEqual(self.ask("DELETE", "/state/store/etag", If_Match=old)[0], 409)
        last = {"key": "etag", "value": 4, "etag": old, "options": {"concurrency": "last-write"}}
        self.assertEqual(self.save(last), 204)
        self.assertEqual(self.value("etag"), 4)
        self.assertEqual(self.ask("DELETE", "/state/store/etag", If_Match=self.etag("etag"))[0], 204)

    def test_of_a_hundred_first_writes_one_wins(self):
        def write(number):
            return self.save({"key": "race", "value": number, "options": {"concurrency": "first-write"}})

        with ThreadPoolExecutor(100) as threads:
            answers = list(threads.map(write, range(100)))
        self.assertEqual(sorted(answers), [204] + 99 * [409])
        self.assertEqual(self.value("race"), answers.index(204))

    def test_a_transaction_is_done_as_a_whole(self):
        def upsert(key, value, **more):
            return {"operation": "upsert", "request": {"key": key, "value": value, **more}}

        self.save({"key": "guard", "value": 1}, {"key": "gone", "value": 1})
        stale = self.etag("guard")
        delete = {"operation": "delete", "request": {"key": "gone"}}
        both = {"operations": [upsert("new", 2), upsert("guard", 2, etag=stale), delete]}
        self.assertEqual(self.ask("POST", "/state/store/transaction", both)[0], 204)
        self.assertEqual([self.value(key) for key in ("new", "guard", "gone")], [2, 2, None])
        both = {"operations": [upsert("new", 3), upsert("guard", 3, etag=stale)]}
        status, _, body = self.ask("POST", "/state/store/transaction", both)
        self.assertEqual(status, 500)
        self.assertIn(b"operation 2 of 2: the ETag", body)
        self.assertEqual([self.value(key) for key in ("new", "guard")], [2, 2])

    def test_a_value_ends_when_it_is_to(self):
        self.assertEqual(self.save({"key": "short", "value": 1, "metadata": {"ttlInSeconds": "100"}}), 204)
        headers = self.ask("GET", "/state/store/short")[1]
        self.assertRegex(headers["metadata.ttlexpiretime"], re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z$"))
        self.assertEqual(self.save({"key": "wrong", "value": 1, "metadata": {"ttlInSeconds": "foo"}}), 500)
        self.assertIsNone(self.value("wrong"))

    def test_many_are_read_at_once(self):
        self.save({"key": "many-1", "value": 1}, {"key": "many-2", "value": 2})
        wanted = {"keys": ["many-1", "many-2", "many-3"], "parallelism": 2}
        items = json.loads(self.ask("POST", "/state/store/bulk", wanted)[2])
        self.assertEqual({item["key"]: item.get("data") for item in items}, {"many-1": 1, "many-2": 2, "many-3": None})


if __name__ == "__main__":
    missing = [name for name in ("DAPRD", "STATESTORED", "STATESTORE_DAPR") if not os.environ.get(name)]
    if missing:
        sys.exit("these variables do not say where the programs are: " + ", ".join(missing))
    unittest.main()
