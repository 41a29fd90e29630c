"""The golden vectors (tests/vectors) on the wire: the scripted peer (tests/peer) plays them to a client."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import statestore
from statestore import Hlc, StateStoreError

PEER = Path(__file__).parents[3] / "tests" / "peer"
PLAYS = ["requests", "requests_beyond_53_bits", "replies", "errors", "responses", "notifications", "topics", "many"]
HANG_TIMEOUT = 30  # seconds; no healthy step comes near it, so that a hang becomes a failure
READY = "listening on tcp://"
RENAMED = {"del": "delete"}


def raw(text):
    return text.encode("latin-1")


@contextlib.contextmanager
def peer(play):
    """The URL of a peer that plays; everything that it expects must have come at the end."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, PEER, play], text=True, **pipes) as process:
        try:
            ready = process.stdout.readline()
            assert ready.startswith(READY)
            yield f"mqtt://{ready.strip().removeprefix(READY)}"
        finally:
            try:
                _, complaints = process.communicate(timeout=HANG_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            assert process.returncode == 0, complaints


def plan(play):
    return json.loads(subprocess.check_output([sys.executable, PEER, "--plan", play]))


@pytest.mark.parametrize("play", PLAYS)
def test_play(play):
    with peer(play) as url:
        for connection in plan(play):
            with statestore.connect(url, client_id=connection["client_id"]) as client:
                player = Player(client)
                for action in connection["actions"]:
                    expected, got = action["gives"], player.play(action)
                    assert got == expected, f"{action['name']}: expected {expected}, got {got}"


class Player:
    """Makes the calls of a plan."""

    def __init__(self, client):
        self.client, self.observer = client, None

    def play(self, action):
        """What a call gives, as the plan writes it."""
        try:
            return getattr(self, RENAMED.get(action["call"], action["call"]))(action)
        except StateStoreError as error:
            says, part = str(error).encode().decode("latin-1"), action["gives"].get("says")
            if part is not None and part in says:
                says = part
            result = {"is": "error", "kind": error.kind, "outcome": error.outcome, "retryable": error.retryable}
            return result | {"says": says}

    def set(self, action):
        options = {name: action[name] for name in ("condition", "persist") if name in action}
        if "expires_in" in action:
            options["expires_in"] = action["expires_in"] / 1000
        if "fencing_token" in action:
            options["fencing_token"] = Hlc(action["fencing_token"])
        outcome = self.client.set(raw(action["key"]), raw(action["value"]), **options)
        return {"is": "applied" if outcome else "not_applied", "version": str(outcome.version)}

    def get(self, action):
        entry = self.client.get(raw(action["key"]))
        if entry is None:
            return {"is": "absent"}
        return {"is": "value", "value": entry.value.decode("latin-1"), "version": str(entry.version)}

    def get_many(self, action):
        entries = self.client.get_many(map(raw, action["keys"]))
        shown = [entry and {"value": entry.value.decode("latin-1"), "version": str(entry.version)} for entry in entries]
        return {"is": "entries", "entries": shown, "snapshot": entries.snapshot}

    def delete(self, action):
        return plain(self.client.delete(raw(action["key"])))

    def vdel(self, action):
        return plain(self.client.vdel(raw(action["key"]), raw(action["value"])))

    def scan(self, action):
        return {"is": "keys", "keys": [key.decode("latin-1") for key in self.client.scan(raw(action["pattern"]))]}

    def observe(self, action):
        self.observer = self.client.observe(raw(action["key"]))
        return {"is": "observing"}

    def next(self, _):
        return plain(self.observer.next(timeout=HANG_TIMEOUT))

    def stop(self, _):
        self.observer.close()
        return {"is": "stopped"}

    def counters(self, action):
        counters = self.client.counters()
        return {name: getattr(counters, name, "counters") for name in action["gives"]}


def plain(result):
    """A result as the plan writes it."""
    match result:
        case statestore.Set(value=value, version=version):
            return {"is": "set", "value": value.decode("latin-1"), "version": str(version)}
        case statestore.Deleted(version=version):
            return {"is": "deleted", "version": version and str(version)}
        case statestore.Absent():
            return {"is": "absent"}
        case statestore.Mismatch(version=version):
            return {"is": "mismatch", "version": version and str(version)}
    return {"is": repr(result)}
