"""What both clients in Python do: lines in, lines out; see `tests/chaos/src/peer_line.rs`."""

import json
import os
import sys
import threading
import time

import statestore

# From time-outs that notice soon what is not there any more; in seconds.
SETTINGS = {
    "encoding": "utf-8",
    "keep_alive": 1,
    "ping_timeout": 1.0,
    "connect_timeout": 2.0,
    "request_timeout": 5.0,
    "session_expiry": 60,
    "reconnect_delay_min": 0.01,
    "reconnect_delay_max": 0.2,
}

now = time.monotonic_ns

_lock = threading.Lock()


def say(line):
    text = json.dumps({name: value for name, value in line.items() if value is not None})
    with _lock:
        try:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(0)  # Nobody listens any more.


def failed(error):
    return {"told": "error", "kind": error.kind, "outcome": error.outcome, "text": str(error)}


def version(of):
    return None if of is None else str(of)


def entry(found):
    if found is None:
        return {"told": "none"}
    return {"told": "entry", "value": found.value, "version": version(found.version)}


def condition(word):
    """The options of a SET."""
    if word.startswith("="):
        return {"condition": statestore.if_version(statestore.Hlc(word[1:]))}
    return {"condition": word}


def stored(outcome):
    return {"told": "applied" if outcome.applied else "not_applied", "version": version(outcome.version)}


def deleted(outcome):
    if isinstance(outcome, statestore.Deleted):
        return {"told": "deleted", "version": version(outcome.version)}
    return {"told": "absent" if isinstance(outcome, statestore.Absent) else "mismatch"}


def one_more(old):
    return str((0 if old is None else int(old.value)) + 1)


def observed(observes, observation):
    line = {"observes": observes}
    if isinstance(observation, statestore.Set):
        line |= {"told": "set", "value": observation.value, "version": version(observation.version)}
    elif isinstance(observation, statestore.Deleted):
        line |= {"told": "deleted", "version": version(observation.version)}
    elif isinstance(observation, statestore.Resync):
        line |= {"told": "resync"}
    else:
        line |= {"told": "lagged", "text": repr(observation)}
    say(line)
