"""The scenarios that every language plays (tests/scenarios/README.md), with both faces."""

import json
import math
from pathlib import Path

import pytest

import statestore
from statestore import Hlc

FOLDER = Path(__file__).parents[3] / "tests" / "scenarios"
PATIENCE = 30.0
TIMES = {"timeout", "expires_in", "duration", "wait", "foreign_lease_max"}
RENAMED = {"del": "delete", "del_many": "delete_many"}


def scenarios():
    for path in sorted(FOLDER.glob("*.json")):
        found = json.loads(path.read_text())["scenarios"]
        assert found
        for scenario in found:
            yield pytest.param(scenario["steps"], id=f"{path.stem}: {scenario['name']}")


def raw(text):
    return text.encode("latin-1")


def text(data):
    return data.decode("latin-1")


class Player:
    def __init__(self, face, connect):
        self.face, self.connect = face, connect
        self.clients, self.things, self.versions = {}, {}, {}

    def play(self, step):
        assert step.keys() <= {"call", "client", "on", "args", "options", "result", "error", "save"}
        if "on" in step:
            on = self.things[step["on"]]
        else:
            name = step.get("client", "a")
            on = self.clients.get(name) or self.clients.setdefault(name, self.connect())
        if "error" in step:
            with pytest.raises(statestore.StateStoreError) as raised:
                self.call(on, step)
            assert raised.value.kind == step["error"]["kind"]
            assert raised.value.outcome == step["error"].get("outcome", raised.value.outcome)
            assert raised.value.operation == step["error"].get("operation", raised.value.operation)
            return
        try:
            result = self.call(on, step)
        except statestore.StateStoreError as error:
            if error.results is None:
                raise
            result = error.results
        if "save" in step:
            self.things[step["save"]] = result
        if "result" in step:
            self.compare(step["result"], plain(result))

    def call(self, on, step):
        name = RENAMED.get(step["call"], step["call"])
        if name == "transact":
            arguments = [self.transaction(on, step["args"][0])]
        else:
            arguments = [self.argument(argument) for argument in step.get("args", [])]
        options = self.options(step.get("options", {}))
        if name == "next":
            options["timeout"] = PATIENCE
        result = getattr(on, name)(*arguments, **options)
        return sorted(self.face.collect(result)) if name == "scan" else self.face.run(result)

    def transaction(self, client, operations):
        transaction = client.transaction()
        for call, *data, options in operations:
            add = getattr(transaction, RENAMED.get(call, call))
            assert add(*map(raw, data), **self.options(options)) is transaction
        assert len(transaction) == len(operations)
        return transaction

    def options(self, options):
        return {name: self.option(name, value) for name, value in options.items()}

    def argument(self, argument):
        if isinstance(argument, list):
            return [raw(item) if isinstance(item, str) else tuple(map(raw, item)) for item in argument]
        if isinstance(argument, str):
            return raw(argument)
        if "append" in argument:
            return lambda old: (old.value if old else b"") + raw(argument["append"])
        assert argument == {"leave": True}
        return lambda _: None

    def option(self, name, value):
        if name == "expires_in" and value == "never":
            return math.inf
        if name in TIMES or (name == "renewal" and not isinstance(value, str)):
            return value / 1000
        if name in {"fencing_token", "if_version"}:
            return self.versions[value["ref"]]
        if name == "condition" and not isinstance(value, str):
            return statestore.if_version(self.versions[value["if_version"]["ref"]])
        if name == "overflow" and not isinstance(value, str):
            return value["all"]
        return raw(value) if name == "holder" else value

    def compare(self, expected, found):
        if isinstance(expected, list):
            assert len(expected) == len(found)
            for item, of in zip(expected, found, strict=True):
                self.compare(item, of)
        elif expected == "never":
            assert found == math.inf
        elif not isinstance(expected, dict):
            assert found == expected
        elif expected == {"absent": True}:
            assert found is None
        elif expected.keys() == {"at_most"}:
            assert 0 < found * 1000 <= expected["at_most"]
        elif len(expected) == 1 and expected.keys() <= {"save", "same", "newer"}:
            ((word, name),) = expected.items()
            assert isinstance(found, Hlc)
            if word == "save":
                self.versions[name] = found
            elif word == "same":
                assert found == self.versions[name]
            else:
                assert found > self.versions[name]
        else:
            assert isinstance(found, dict), found
            for name, value in expected.items():
                self.compare(value, found.get(name))


IS = {
    statestore.Set: "set",
    statestore.Deleted: "deleted",
    statestore.Absent: "absent",
    statestore.Mismatch: "mismatch",
    statestore.Applied: "applied",
    statestore.Unchanged: "unchanged",
    statestore.Resync: "resync",
    statestore.Lagged: "lagged",
}


def plain(result):
    """A result as the scenarios write it."""
    if isinstance(result, bytes):
        return text(result)
    if isinstance(result, statestore.Entries):
        return {"entries": [plain(item) for item in result], "snapshot": result.snapshot}
    if isinstance(result, list):
        return [plain(item) for item in result]
    if isinstance(result, statestore.StateStoreError):
        return {"error": {"kind": result.kind, "outcome": result.outcome}}
    if isinstance(result, statestore.Release):
        return {"is": result.value}
    if isinstance(result, statestore.Held):
        return {"is": "held", "holding": plain(result.by)}
    if isinstance(result, statestore.Holder):
        return text(result.name)
    if hasattr(result, "release"):
        return {"is": "acquired"}
    if hasattr(result, "__dataclass_fields__"):
        members = {name: plain(getattr(result, name)) for name in result.__dataclass_fields__}
        return {"is": IS[type(result)], **members} if type(result) in IS else members
    return result


@pytest.mark.parametrize("steps", list(scenarios()))
def test_scenario(steps, face, connect):
    player = Player(face, connect)
    for step in steps:
        player.play(step)
