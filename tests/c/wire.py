"""Writes the plays of the scripted peer as C tables: `wire.py PEER TARGET`."""

import pathlib
import sys

peer, target = map(pathlib.Path, sys.argv[1:3])
sys.path.insert(0, str(peer))
import plays  # noqa: E402


def literal(value):
    """A byte string of the vectors as C; octal escapes cannot run into what follows."""
    return '"' + "".join(f"\\{byte:03o}" for byte in value.encode("latin-1")) + '"'


def text(value):
    return f"{{{literal(value)}, {len(value)}}}"


def optional(value):
    return "NULL" if value is None else literal(value)


def gives(action):
    """What a call gives, in the words of `play_action` in wire.c."""
    hexadecimal = lambda value: value.encode("latin-1").hex()
    match action["gives"]:
        case {"is": "keys", "keys": keys}:
            return " ".join(["keys", *map(hexadecimal, keys)])
        case {"is": "error", "kind": kind, "outcome": outcome, "retryable": retryable}:
            return f"error {kind} {outcome} {'retryable' if retryable else 'final'}"
        case {"is": "entries", "entries": entries, "snapshot": snapshot}:
            shown = lambda entry: f"{entry['version']} {hexadecimal(entry['value'])}" if entry else "absent"
            return " ".join(["entries", "snapshot" if snapshot else "separate", *map(shown, entries)])
        case {"is": "counters", **counters}:
            return " ".join(["counters", *map(str, counters.values())])
        case {"is": word, "value": value, "version": version}:
            return f"{word} {version} {hexadecimal(value)}"
        case {"is": word, **rest}:
            # A deletion may have no version.
            return " ".join([word, *filter(None, rest.values())])


def row(action, client_id):
    fields = [
        literal(action["name"]),
        optional(client_id),
        f"CALL_{action['call'].upper()}",
        text(action.get("key", action.get("pattern", "".join(action.get("keys", []))))),
        text(action.get("value", "")),
        f"SST_{action.get('condition', 'always').upper()}",
        f"{action.get('expires_in', 0)}u",
        str(action.get("persist", False)).lower(),
        optional(action.get("fencing_token")),
        literal(gives(action)),
        optional(action["gives"].get("says")),
    ]
    return f"  {{{', '.join(fields)}}},"


# In C the greatest number is a time without an end.
played = [name for name in plays.PLAYS if name != "requests_beyond_53_bits"]
lines = [f'static const char peer[] = "{peer}";']
for name in played:
    lines.append(f"static const action {name}[] = {{")
    for connection in plays.plan(name):
        client_id = connection["client_id"]
        for action in connection["actions"]:
            lines.append(row(action, client_id))
            client_id = None
    lines.append("};")
lines.append("static const play all_plays[] = {")
lines += [f'  {{"{name}", {name}, sizeof {name} / sizeof {name}[0]}},' for name in played]
target.write_text("\n".join([*lines, "};"]) + "\n")
