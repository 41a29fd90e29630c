#!/usr/bin/env python3
"""Dapr's Python SDK with the state store `store` of the daprd at DAPR_GRPC_PORT and DAPR_HTTP_PORT."""

import os
import unittest
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from urllib.request import urlopen

import grpc
from dapr.clients import DaprClient
from dapr.clients.grpc._request import TransactionalStateOperation, TransactionOperationType
from dapr.clients.grpc._state import Concurrency, Consistency, StateItem, StateOptions

STORE = "store"
FIRST_WRITE = StateOptions(concurrency=Concurrency.first_write)
LAST_WRITE = StateOptions(concurrency=Concurrency.last_write)


def upsert(key, value, etag=None):
    return TransactionalStateOperation(key=key, data=value, etag=etag, operation_type=TransactionOperationType.upsert)


class StateOfPython(unittest.TestCase):
    def setUp(self):
        self.dapr = DaprClient()
        self.addCleanup(self.dapr.close)

    def save(self, key, value, **more):
        self.dapr.save_state(STORE, key, value, **more)

    def get(self, key):
        return self.dapr.get_state(STORE, key)

    def values(self, *keys):
        return [self.get(key).text() for key in keys]

    def assert_refused(self, code, words, call, *arguments, **more):
        with self.assertRaises(grpc.RpcError) as refused:
            call(*arguments, **more)
        self.assertEqual(refused.exception.code(), code, refused.exception)
        self.assertIn(words, refused.exception.details())

    def assert_mismatch(self, call, *arguments, **more):
        self.assert_refused(grpc.StatusCode.ABORTED, "possible etag mismatch", call, *arguments, **more)

    def test_first_write_needs_the_etag_that_was_read(self):
        self.save("py-first", "one", options=FIRST_WRITE)
        read = self.get("py-first").etag
        self.save("py-first", "two", etag=read, options=FIRST_WRITE)
        self.assert_mismatch(self.save, "py-first", "three", etag=read, options=FIRST_WRITE)
        self.assert_mismatch(self.save, "py-first", "four", options=FIRST_WRITE)
        self.assert_mismatch(self.dapr.delete_state, STORE, "py-first", etag=read)
        self.assertEqual(self.values("py-first"), ["two"])
        self.dapr.delete_state(STORE, "py-first", etag=self.get("py-first").etag, options=FIRST_WRITE)
        self.assertEqual(self.get("py-first").data, b"")

    def test_last_write_does_not_look_at_an_etag(self):
        self.save("py-last", "one")
        read = self.get("py-last").etag
        self.save("py-last", "two")
        self.save("py-last", "three", etag=read, options=LAST_WRITE)
        self.assertEqual(self.values("py-last"), ["three"])
        self.dapr.delete_state(STORE, "py-last", etag=read, options=LAST_WRITE)
        self.assertEqual(self.get("py-last").data, b"")

    def test_a_write_of_either_consistency_is_read_at_once(self):
        for consistency in (Consistency.strong, Consistency.eventual):
            self.save("py-consistency", consistency.name, options=StateOptions(consistency=consistency))
            self.assertEqual(self.values("py-consistency"), [consistency.name])

    def test_of_a_hundred_first_writes_one_wins(self):
        def write(number):
            try:
                self.save("py-race", str(number), options=FIRST_WRITE)
            except grpc.RpcError as error:
                return error.code()
            return None

        with ThreadPoolExecutor(100) as threads:
            answers = list(threads.map(write, range(100)))
        self.assertEqual(answers.count(grpc.StatusCode.ABORTED), 99)
        self.assertEqual(self.values("py-race"), [str(answers.index(None))])

    def test_a_transaction_is_everything_or_nothing(self):
        self.save("py-guard", "one")
        self.save("py-gone", "one")
        read = self.get("py-guard").etag
        delete = TransactionalStateOperation(key="py-gone", operation_type=TransactionOperationType.delete)
        self.dapr.execute_state_transaction(STORE, [upsert("py-new", "two"), upsert("py-guard", "two", read), delete])
        self.assertEqual(self.values("py-new", "py-guard", "py-gone"), ["two", "two", ""])
        stale = [upsert("py-new", "three"), upsert("py-guard", "three", read)]
        words = "operation 2 of 2: the ETag"
        self.assert_refused(grpc.StatusCode.INTERNAL, words, self.dapr.execute_state_transaction, STORE, stale)
        self.assertEqual(self.values("py-new", "py-guard"), ["two", "two"])

    def test_many_at_once(self):
        self.dapr.save_bulk_state(STORE, [StateItem("py-1", "one"), StateItem("py-2", "two")])
        items = self.dapr.get_bulk_state(STORE, ["py-1", "py-2", "py-3"], parallelism=2).items
        self.assertEqual({item.key: item.text() for item in items}, {"py-1": "one", "py-2": "two", "py-3": ""})
        self.assertEqual({item.key: item.etag for item in items}["py-1"], self.get("py-1").etag)

    def test_a_value_ends_when_it_is_to(self):
        self.save("py-short", '"one"', state_metadata={"ttlInSeconds": "100"})
        # The SDK does not hand out what daprd tells of the end.
        with urlopen(f"http://127.0.0.1:{os.environ['DAPR_HTTP_PORT']}/v1.0/state/{STORE}/py-short", timeout=60) as answer:
            ends = answer.headers["metadata.ttlexpiretime"]
        # To the second: not every Python reads nanoseconds.
        ends = datetime.strptime(ends[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
        remaining = (ends - datetime.now(timezone.utc)).total_seconds()
        self.assertTrue(0 < remaining <= 101, remaining)


if __name__ == "__main__":
    unittest.main()
