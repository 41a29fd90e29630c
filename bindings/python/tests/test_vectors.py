"""The golden vectors (tests/vectors) as far as Python reaches what they are about."""

import json
import pickle
import typing
from pathlib import Path

import pytest

import statestore
from statestore import Hlc, StateStoreError, _errors

FOLDER = Path(__file__).parents[3] / "tests" / "vectors"


def vectors(name):
    return json.loads((FOLDER / name).read_text())


def text(written):
    """The text whose bytes are written; what is not UTF-8 stays so."""
    return written.encode("latin-1").decode("utf-8", "surrogateescape")


def test_the_kinds_of_errors():
    table = vectors("error_kinds.json")["kinds"]
    assert {kind["name"]: kind["code"] for kind in table} == {name: error.code for name, error in _errors.KINDS.items()}
    for kind in table:
        error = _errors.KINDS[kind["name"]]
        assert error.__name__ == kind["name"] + "Error"
        assert getattr(statestore, error.__name__) is error
        assert issubclass(error, StateStoreError)


def test_the_reasons_of_a_loss():
    reasons = vectors("lost_reasons.json")["reasons"]
    assert typing.get_args(statestore.LostReason) == tuple(reason["word"] for reason in reasons)


@pytest.mark.parametrize("name", sorted(_errors.KINDS))
def test_an_exception_survives_pickling(name):
    error = _errors.KINDS[name]("getting: it failed", "not_done", True)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.kind, again.outcome, again.retryable) == (str(error), name, "not_done", True)


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("InvalidArgument", ValueError),
        ("InvalidSettings", ValueError),
        ("Unreachable", ConnectionError),
        ("ConnectionRefused", ConnectionError),
        ("NotAuthenticated", PermissionError),
        ("SessionLost", ConnectionError),
        ("Closed", ConnectionError),
        ("TimedOut", TimeoutError),
        ("NotAuthorized", PermissionError),
        ("TooLarge", ValueError),
    ],
)
def test_an_exception_is_the_fitting_builtin_too(name, builtin):
    error = _errors.KINDS[name]
    assert issubclass(error, builtin)
    assert str(error("it failed")) == "it failed"


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in vectors("hlc.json")["texts"]])
def test_a_version_as_text(case):
    expected = case["decode"]
    if "error" in expected:
        with pytest.raises(ValueError):
            Hlc(text(case["text"]))
        return
    version = Hlc(text(case["text"]))
    assert version.wall_ms == int(expected["wall_ms"])
    assert version.counter == int(expected["counter"])
    assert version.node_id == text(expected["node_id"])
    assert str(version) == text(case.get("encode", case["text"]))
    assert pickle.loads(pickle.dumps(version)) == version


def test_the_order_of_versions():
    rising = [Hlc(text(version)) for version in vectors("hlc.json")["rising"]]
    assert sorted(reversed(rising)) == rising
    for lower, higher in zip(rising, rising[1:], strict=False):
        assert lower < higher and higher > lower and lower <= higher and lower != higher
        assert len({lower, higher, Hlc(str(lower))}) == 2
