"""`statestore` and `statestore.aio` have the same names, arguments and defaults."""

import builtins
import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import statestore
from statestore import _errors, _results, _state, aio
from statestore.options import LeaseOptions, LockOptions, Settings

CLASSES = [
    *("Client", "Election", "Guard", "Leadership", "Lease", "Mirror", "MirrorChanges", "Observer", "Pipeline", "Scan", "Transaction"),
]
# What waits in the one face and is awaited in the other.
WAITING = {
    "Client": {
        *("get", "get_many", "set", "set_many", "delete", "delete_many", "vdel", "exists", "ttl", "touch", "incr", "ping"),
        *("capabilities", "transact", "observe", "observe_matching", "mirror", "update", "lock", "with_lock", "close"),
    },
    "Election": {"campaign", "leader", "observe"},
    "Guard": {"lost", "renew", "release", "leave", "set", "update", "delete", "vdel"},
    "Leadership": {"proclaim", "resign"},
    "Lease": {"acquire", "release", "holder", "observe"},
    "Mirror": {"synced", "close"},
    "MirrorChanges": {"next"},
    "Observer": {"next", "close"},
    "Pipeline": {"execute"},
    "Scan": {"next_page"},
    "Transaction": set(),
}
# The name that `contextlib.aclosing` calls.
ONLY_ASYNCIO = {"aclose"}


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("name", CLASSES)
def test_both_have_the_same_members(name):
    blocking, asyncio = getattr(statestore, name), getattr(aio, name)
    assert public(blocking) == public(asyncio) - ONLY_ASYNCIO
    for member in public(blocking):
        one, other = getattr(blocking, member), getattr(asyncio, member)
        assert callable(one) == callable(other), member
        if callable(one):
            assert inspect.signature(one) == inspect.signature(other), member
        assert inspect.getdoc(one), f"{name}.{member} has no documentation"
        assert inspect.getdoc(other), f"aio.{name}.{member} has no documentation"


def test_connect_has_the_same_arguments():
    assert inspect.signature(statestore.connect) == inspect.signature(aio.connect)


def test_option_types_match_the_calls():
    """The calls are typed with these; what they take is known to the native half."""

    def options(call, *others):
        return [name for name in inspect.signature(call).parameters if name not in {"self", *others}]

    assert [*get_type_hints(Settings)] == options(statestore.connect, "url", "env", "encoding")
    assert [*get_type_hints(LeaseOptions)] == options(statestore.Client.lease, "name")
    for call in (statestore.Client.lock, statestore.Client.election):
        assert [*get_type_hints(LockOptions)] == options(call, "name")


def test_nothing_that_is_imported_with_a_star_hides_a_builtin():
    shared = set(statestore.__all__) & set(dir(builtins)) - {"__doc__", "__name__"}
    assert not shared
    # The names of before stay, and are the same classes.
    assert statestore.ConnectionRefusedError is statestore.BrokerRefusedError
    assert statestore.SyntaxError is statestore.RequestSyntaxError
    assert not issubclass(statestore.BrokerRefusedError, builtins.ConnectionRefusedError)


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_member_has_a_docstring(name):
    for of in (getattr(statestore, name), getattr(aio, name)):
        assert inspect.getdoc(of)
        for member in public(of):
            assert inspect.getdoc(getattr(of, member)), f"{of.__module__}.{name}.{member}"


@pytest.mark.parametrize("name", CLASSES)
def test_waiting_methods_are_coroutines(name):
    """By what the methods are: those of asyncio are coroutine functions, and the others are not."""
    for member in public(getattr(aio, name)):
        method = inspect.unwrap(getattr(aio, name).__dict__.get(member, None), stop=inspect.iscoroutinefunction)
        if member in WAITING[name] | ONLY_ASYNCIO:
            assert inspect.iscoroutinefunction(method), f"{name}.{member}"
        else:
            assert not inspect.iscoroutinefunction(method), f"{name}.{member}"


def test_the_types_of_asyncio_are_made_from_the_blocking_ones():
    tool = Path(__file__).parents[1] / "tools" / "aio_stub.py"
    subprocess.run([sys.executable, tool, "--check"], check=True)


def test_everything_public_is_exported():
    hiding_builtins = {"ConnectionRefusedError", "SyntaxError"}
    assert set(statestore.__all__) >= {*_errors.__all__, *_results.__all__, *_state.__all__, *aio.__all__} - hiding_builtins
    assert all(hasattr(statestore, name) for name in statestore.__all__)
