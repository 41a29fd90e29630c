"""Several requests in one call: each has an outcome of its own."""

import copy
import pickle

import pytest

from statestore import Absent, Deleted, Entries, Entry, InvalidArgumentError, Mismatch, SetOutcome


@pytest.mark.parametrize(
    "values",
    [
        lambda: {"a": "1", "b": "2"},
        lambda: {b"a": b"1", b"b": bytearray(b"2")},
        lambda: [("a", "1"), (b"b", memoryview(b"2"))],
        lambda: zip("ab", "12", strict=True),
    ],
    ids=["mapping", "of bytes", "pairs", "generator"],
)
def test_values_are_given_as_a_mapping_or_as_pairs(face, connect, values):
    client = connect()
    first, second = face.run(client.set_many(values()))
    assert first.applied and second.applied
    assert [entry.value for entry in face.run(client.get_many(["a", "b"]))] == [b"1", b"2"]


def test_entries_are_a_list_that_says_whether_it_is_a_snapshot(face, connect):
    client = connect()
    version = face.run(client.set("a", "1")).version
    entries = face.run(client.get_many(["a", "none", b"a"]))
    assert isinstance(entries, Entries) and entries.snapshot is True
    assert entries == [Entry(b"1", version), None, Entry(b"1", version)]
    assert face.run(client.get_many(["a"], eventual=True)).snapshot is False
    assert face.run(client.get_many([])).snapshot is True
    for copied in (copy.copy(entries), pickle.loads(pickle.dumps(entries))):
        assert copied == entries and copied.snapshot is True


def test_a_failure_is_raised_and_ends_none_of_the_others(face, connect):
    client = connect()
    with pytest.raises(InvalidArgumentError) as raised:
        face.run(client.set_many([("a", "1"), ("", "2"), ("c", "3")], condition="if_absent"))
    a, failed, c = raised.value.results
    assert isinstance(a, SetOutcome) and isinstance(c, SetOutcome) and a.applied and c.applied
    assert isinstance(failed, InvalidArgumentError) and failed.outcome == "not_done"
    # It is not in a circle with its results, which would keep frames alive.
    assert failed is not raised.value and failed.results is None and str(failed) == str(raised.value)
    assert face.run(client.get("c")).value == b"3"

    with pytest.raises(InvalidArgumentError) as raised:
        face.run(client.delete_many(["none", "a", ""]))
    none, a, failed = raised.value.results
    assert (none, type(a), type(failed)) == (Absent(), Deleted, InvalidArgumentError)

    again = pickle.loads(pickle.dumps(raised.value))
    assert again.results[:2] == [none, a] and again.results[2].kind == failed.kind


def test_other_errors_have_no_results(face, connect):
    with pytest.raises(InvalidArgumentError) as raised:
        face.run(connect().set("", "1"))
    assert raised.value.results is None


def test_a_pipeline_gives_the_results_in_the_order_of_its_requests(face, connect):
    client = connect()
    pipeline = client.pipeline()
    assert face.run(pipeline.execute()) == []
    pipeline.set("a", "1", persist=True).set("a", "2", condition="if_absent").get("a").get("none", timeout=5)
    pipeline.vdel("a", "3").vdel("a", "1", retry="always").delete("none")
    assert (len(pipeline), repr(pipeline)) == (7, "<Pipeline of 7>")
    first, second, entry, *rest = face.run(pipeline.execute())
    assert first.applied and not second.applied and second.version == first.version
    assert entry == Entry(b"1", first.version)
    assert rest == [None, Mismatch(), Deleted(rest[2].version), Absent()]
    # It is empty then, and can be used again.
    assert len(pipeline) == 0
    assert face.run(pipeline.get("a").execute()) == [None]


def test_a_pipeline_of_very_many_requests_is_sent_in_its_order(face, connect):
    client = connect()
    pipeline = client.pipeline()
    for number in range(2000):
        pipeline.set("key", str(number))
    outcomes = face.run(pipeline.execute())
    assert all(outcomes) and len(outcomes) == 2000
    assert face.run(client.get("key")) == Entry(b"1999", outcomes[-1].version)


def test_a_failed_request_of_a_pipeline_does_not_stop_the_others(face, connect):
    client = connect()
    with pytest.raises(InvalidArgumentError) as raised:
        face.run(client.pipeline().set("a", "1").set("", "2").get("a").execute())
    outcome, failed, entry = raised.value.results
    assert outcome.applied and isinstance(failed, InvalidArgumentError) and entry.value == b"1"
    # What cannot be a request is refused when it is added.
    with pytest.raises(TypeError, match="value"):
        client.pipeline().set("a", 1)
