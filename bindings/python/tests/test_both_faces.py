"""`statestore` and `statestore.aio` have the same names, arguments and defaults."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import statestore
from statestore import _errors, _results, aio

CLASSES = ["Client", "Election", "Guard", "Leadership", "Lease", "Observer", "Scan"]
# What waits in the one face and is awaited in the other.
WAITING = {
    "Client": {
        *("get", "get_many", "set", "set_many", "delete", "delete_many", "vdel"),
        *("observe", "update", "lock", "with_lock", "close"),
    },
    "Election": {"campaign", "leader", "observe"},
    "Guard": {"lost", "renew", "release", "leave", "set", "delete", "vdel"},
    "Leadership": {"proclaim", "resign"},
    "Lease": {"acquire", "release", "holder", "observe"},
    "Observer": {"next", "close"},
    "Scan": {"next_page"},
}


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("name", CLASSES)
def test_both_have_the_same_members(name):
    blocking, asyncio = getattr(statestore, name), getattr(aio, name)
    assert public(blocking) == public(asyncio)
    for member in public(blocking):
        one, other = getattr(blocking, member), getattr(asyncio, member)
        assert callable(one) == callable(other), member
        if callable(one):
            assert inspect.signature(one) == inspect.signature(other), member
        assert inspect.getdoc(one), f"{name}.{member} has no documentation"
        assert inspect.getdoc(other), f"aio.{name}.{member} has no documentation"


def test_connect_has_the_same_arguments():
    assert inspect.signature(statestore.connect) == inspect.signature(aio.connect)


@pytest.mark.parametrize("name", CLASSES)
def test_what_waits_is_awaited(name):
    """By what the methods are: those of asyncio are coroutine functions, and the others are not."""
    for member in public(getattr(aio, name)):
        method = inspect.unwrap(getattr(aio, name).__dict__.get(member, None), stop=inspect.iscoroutinefunction)
        if member in WAITING[name]:
            assert inspect.iscoroutinefunction(method), f"{name}.{member}"
        else:
            assert not inspect.iscoroutinefunction(method), f"{name}.{member}"


def test_the_types_of_asyncio_are_made_from_the_blocking_ones():
    tool = Path(__file__).parents[1] / "tools" / "aio_stub.py"
    subprocess.run([sys.executable, tool, "--check"], check=True)


def test_everything_public_is_exported():
    assert set(statestore.__all__) >= {*_errors.__all__, *_results.__all__, *aio.__all__}
    assert all(hasattr(statestore, name) for name in statestore.__all__)
