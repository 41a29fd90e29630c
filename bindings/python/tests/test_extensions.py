"""What not every store can do: how Python has it. What it does is in the scenarios."""

import math
import pickle

import pytest

import statestore
from statestore import Capabilities, Entry, Hlc, Mismatch, TransactionOutcome, if_version

VERSION = Hlc("000000000000007:00001:StateStore")


def test_a_condition_is_a_value():
    condition = if_version(VERSION)
    assert condition.version == VERSION
    assert condition == if_version(VERSION) != if_version(Hlc("8:0:StateStore"))
    assert len({condition, if_version(VERSION)}) == 1
    assert repr(condition) == f"if_version({VERSION!r})"
    for wrong in (None, "7:1:StateStore", 7):
        with pytest.raises(TypeError, match="version must be an Hlc"):
            if_version(wrong)


def test_wrong_arguments_are_named(face, connect):
    client = connect()
    wrong = [
        (lambda: client.delete("k", if_version="7:1:StateStore"), "if_version must be an Hlc, not str"),
        (lambda: client.set("k", "v", condition=VERSION), "condition must be str, not Hlc"),
        (lambda: client.get("k", remaining=1), "remaining must be bool, not int"),
        (lambda: client.get("k", eventual=1), "eventual must be bool, not int"),
        (lambda: client.transact([]), "transaction"),
        (lambda: client.transact(client.transaction(), persist="yes"), "persist must be bool, not str"),
        (lambda: client.transaction().set("k", 7), "value must be"),
    ]
    for call, message in wrong:
        with pytest.raises(TypeError, match=message):
            face.run(call())


def test_a_transaction_can_be_sent_again_and_continued(face, connect):
    client = connect()
    transaction = client.transaction().set("a", "1")
    assert face.run(client.transact(transaction))
    assert transaction.delete("a") is transaction
    outcome = face.run(client.transact(transaction))
    assert outcome and len(outcome.versions) == len(transaction) == 2
    assert repr(transaction) == "<Transaction of 2>"
    assert face.run(client.get("a")) is None


def test_a_store_without_transactions_refuses_them(face, plain_url):
    client = face.run(face.module.connect(plain_url))
    with pytest.raises(statestore.UnsupportedError, match="statestore-intents"):
        face.run(client.transact(client.transaction().set("a", "1")))
    face.run(client.close())


def test_an_invalid_operation_is_named(face, connect):
    client = connect()
    transaction = client.transaction().set("a", "1").set("b", "2", expires_in=0)
    with pytest.raises(statestore.InvalidArgumentError, match="operation 1 of a transaction") as raised:
        face.run(client.transact(transaction))
    assert raised.value.operation == 1
    assert pickle.loads(pickle.dumps(raised.value)).operation == 1
    with pytest.raises(statestore.InvalidArgumentError) as raised:
        face.run(client.get(""))
    assert raised.value.operation is None


def test_text_goes_into_a_transaction_as_the_client_writes_it(face, connect):
    client = connect(encoding="latin-1")
    assert face.run(client.transact(client.transaction().set("ä", "ö")))
    assert face.run(client.get("ä")).value == "ö"
    assert face.run(connect().get(b"\xe4")).value == b"\xf6"


def test_an_unknown_remaining_time_is_not_taken_for_one_without_an_end(face, connect):
    client = connect()
    face.run(client.set("lease", "v", expires_in=60))
    unknown = face.run(client.get("lease"))
    assert unknown.expires_in == "unknown"
    for write in (client.set, client.update):
        with pytest.raises(TypeError, match="expires_in"):
            face.run(write("lease", "w" if write == client.set else lambda _: "w", expires_in=unknown.expires_in))
    known = face.run(client.get("lease", remaining=True))
    assert known.value == b"v" and 0 < known.expires_in <= 60
    # The times of entries go back in as they came out, without an end too.
    assert face.run(client.set("lease", "w", expires_in=known.expires_in))
    assert face.run(client.set("lease", "w", expires_in=math.inf))
    assert face.run(client.get("lease", remaining=True)).expires_in == math.inf
    transaction = client.transaction().set("lease", "x", expires_in=math.inf)
    assert face.run(client.transact(transaction)).applied
    (entry,) = face.run(client.get_many(["lease"], remaining=True))
    assert (entry.value, entry.expires_in) == (b"x", math.inf)


def test_a_pipeline_and_a_guard_take_conditions_too(face, connect):
    client = connect()
    version = face.run(client.set("key", "one")).version
    pipeline = client.pipeline().delete("key", if_version=VERSION).vdel("key", "one", if_version=VERSION)
    pipeline.get("key", remaining=True, eventual=True)
    pipeline.set("key", "two", condition=if_version(version))
    mismatch, vdel, entry, applied = face.run(pipeline.execute())
    assert mismatch == vdel == Mismatch(version) and not mismatch
    assert entry.expires_in == math.inf and applied
    with_guard = face.run(client.lock("lock"))
    version = face.run(with_guard.set("key", "three", condition=if_version(applied.version))).version
    assert face.run(with_guard.delete("key", if_version=VERSION)) == Mismatch(version)
    assert face.run(with_guard.vdel("key", "three", if_version=VERSION)) == Mismatch(version)
    assert face.run(with_guard.vdel("key", "two")) == Mismatch()
    assert face.run(with_guard.vdel("key", "three", if_version=version))
    face.run(with_guard.release())


def test_results_are_self_describing():
    assert repr(Entry(b"v", VERSION)) == f"Entry(value=b'v', version={VERSION!r})"
    assert repr(Entry(b"v", VERSION, 1.5)) == f"Entry(value=b'v', version={VERSION!r}, expires_in=1.5)"
    assert repr(Mismatch()) == "Mismatch()"
    assert repr(Mismatch(VERSION)) == f"Mismatch(version={VERSION!r})"
    assert not TransactionOutcome(False, [], 3)
    assert Capabilities(True, False, None).transactions is None
    assert not Capabilities(True, False, None).eventual and Capabilities(True, False, None).max_get_keys is None
    assert not Capabilities(True, False, None).scan_values and not Capabilities(True, False, None).observe_matching
