#!/usr/bin/env python3
"""Dapr's state API over HTTP, through a real daprd, the component and the server.

    DAPRD=… STATESTORED=… STATESTORE_DAPR=… python3 tests/dapr/daprd/http_api.py
"""

import json
import re
import unittest
from concurrent.futures import ThreadPoolExecutor

from sidecar import Processes, State, check_environment, upsert


class StateOverHttp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        processes = Processes()
        cls.addClassCleanup(processes.close)
        cls.api = processes.usual()
        cls.store = State(cls.api, "store")

    def test_the_component_is_known_with_what_it_can(self):
        metadata = json.loads(self.api.ask("GET", "/metadata")[2])
        (store,) = [component for component in metadata["components"] if component["name"] == "store"]
        self.assertEqual(store["type"], "state.azure.iotoperations")
        self.assertLessEqual({"ETAG", "TRANSACTIONAL", "TTL", "ACTOR"}, set(store["capabilities"]))

    def test_a_value_is_saved_read_and_deleted(self):
        self.assertEqual(self.api.ask("GET", "/state/store/plain")[0], 204)
        self.assertEqual(self.store.save({"key": "plain", "value": {"a": 1}}), 204)
        self.assertEqual(self.store.value("plain"), {"a": 1})
        self.assertEqual(self.store.delete("plain"), 204)
        self.assertIsNone(self.store.value("plain"))

    def test_an_etag_that_does_not_match_is_a_conflict(self):
        store = self.store
        store.save({"key": "etag", "value": 1})
        old = store.etag("etag")
        self.assertEqual(store.save({"key": "etag", "value": 2, "etag": old}), 204)
        self.assertEqual(store.save({"key": "etag", "value": 3, "etag": old}), 409)
        self.assertEqual(store.delete("etag", If_Match=old), 409)
        last = {"key": "etag", "value": 4, "etag": old, "options": {"concurrency": "last-write"}}
        self.assertEqual(store.save(last), 204)
        self.assertEqual(store.value("etag"), 4)
        self.assertEqual(store.delete("etag", If_Match=store.etag("etag")), 204)

    def test_of_a_hundred_first_writes_one_wins(self):
        def write(number):
            return self.store.save({"key": "race", "value": number, "options": {"concurrency": "first-write"}})

        with ThreadPoolExecutor(100) as threads:
            answers = list(threads.map(write, range(100)))
        self.assertEqual(sorted(answers), [204] + 99 * [409])
        self.assertEqual(self.store.value("race"), answers.index(204))

    def test_a_transaction_is_done_as_a_whole(self):
        store = self.store
        store.save({"key": "guard", "value": 1}, {"key": "gone", "value": 1})
        stale = store.etag("guard")
        delete = {"operation": "delete", "request": {"key": "gone"}}
        self.assertEqual(store.transact(upsert("new", 2), upsert("guard", 2, etag=stale), delete)[0], 204)
        self.assertEqual([store.value(key) for key in ("new", "guard", "gone")], [2, 2, None])
        status, body = store.transact(upsert("new", 3), upsert("guard", 3, etag=stale))
        self.assertEqual(status, 500)
        self.assertIn(b"operation 2 of 2: the ETag", body)
        self.assertEqual([store.value(key) for key in ("new", "guard")], [2, 2])

    def test_a_value_ends_when_it_is_to(self):
        store = self.store
        self.assertEqual(store.save({"key": "short", "value": 1, "metadata": {"ttlInSeconds": "100"}}), 204)
        headers = store.get("short")[1]
        self.assertRegex(headers["metadata.ttlexpiretime"], re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z$"))
        self.assertEqual(store.save({"key": "wrong", "value": 1, "metadata": {"ttlInSeconds": "foo"}}), 500)
        self.assertIsNone(store.value("wrong"))

    def test_many_are_read_at_once(self):
        self.store.save({"key": "many-1", "value": 1}, {"key": "many-2", "value": 2})
        wanted = {"keys": ["many-1", "many-2", "many-3"], "parallelism": 2}
        items = json.loads(self.api.ask("POST", "/state/store/bulk", wanted)[2])
        self.assertEqual({item["key"]: item.get("data") for item in items}, {"many-1": 1, "many-2": 2, "many-3": None})


if __name__ == "__main__":
    check_environment("DAPRD", "STATESTORED", "STATESTORE_DAPR")
    unittest.main()
