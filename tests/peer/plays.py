"""What clients are to do, what the peer answers, and what must come out of it: everything from tests/vectors.

A play is a list of connections, and each of them a list of actions. An action is a call of a client's public
interface, what it gives, and the exchanges that it makes on the wire. `plan` is the half of a play that concerns the
caller, for the tests of every language. All strings are byte strings, as in the vectors: the character U+00XX stands
for the byte XX.
"""

import json
import re
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def load(name):
    return json.loads((VECTORS / f"{name}.json").read_text(encoding="ascii"))


REQUESTS, RESPONSES, TOPICS = load("requests"), load("responses"), load("topics")
PAYLOADS = {case["name"]: case for case in REQUESTS["payloads"]}
REPLIES = {case["name"]: case for case in load("replies")["payloads"]}
EXTENSIONS = {case["name"]: case for case in load("extensions")["replies"]}
NOTIFICATIONS = load("notifications")["messages"]
RETRYABLE = {kind["name"]: kind["retryable"] for kind in load("error_kinds")["kinds"]}

# A request of each verb, for what is about its answer.
VERBS = {
    "set": PAYLOADS["document sample SET, upper case"],
    "get": PAYLOADS["document sample GET, upper case"],
    "del": PAYLOADS["document sample DEL, upper case"],
    "vdel": PAYLOADS["document sample VDEL, upper case"],
    "scan": PAYLOADS["SCAN"],
    "observe": PAYLOADS["document sample KEYNOTIFY"],
}
# An answer to each verb, for what is about its request.
ANSWERS = {
    "set": REPLIES["SET applied"],
    "get": REPLIES["GET of an absent key"],
    "del": REPLIES["no key deleted, or no watch to stop"],
    "vdel": REPLIES["no key deleted, or no watch to stop"],
    "scan": REPLIES["empty last page"],
    "observe": REPLIES["SET applied"],
    "stop": REPLIES["no key deleted, or no watch to stop"],
}
SENT = {case["name"]: case for case in REQUESTS["properties_sent_by_a_client"]}
PLAIN = SENT["timestamp only"]
ANSWERED = next(case for case in RESPONSES["properties_sent_by_a_server"] if case["version"])
WORDS = {None: "always", "NX": "if_absent", "NEX": "if_absent_or_equal"}


@dataclass
class Message:
    """A message that is not a response; `timestamp` may be None."""

    topic: str
    payload: str
    timestamp: str | None


@dataclass
class Exchange:
    """A request that must come, and what the peer sends then."""

    request: str
    reply: str
    # The case whose user properties the request must have.
    sends: dict = field(default_factory=lambda: PLAIN)
    properties: list = field(default_factory=lambda: ANSWERED["encode"])
    # Sent, and acknowledged by the client, before the answer.
    messages: list[Message] = field(default_factory=list)
    # The client sends it on its own: it may come at any time, but before the answers to those behind it.
    on_its_own: bool = False


@dataclass
class Action:
    """A call of a client, and what it gives."""

    name: str
    call: dict
    gives: dict
    exchanges: list[Exchange] = field(default_factory=list)


@dataclass
class Connection:
    client_id: str
    actions: list[Action]


def bulk(text):
    return f"${len(text)}\r\n{text}\r\n"


def array(*items):
    return f"*{len(items)}\r\n" + "".join(map(bulk, items))


def error(kind, outcome, says=""):
    """`says` is a part of the message, in UTF-8."""
    return {"is": "error", "kind": kind, "outcome": outcome, "retryable": RETRYABLE[kind], "says": says}


def refusal(name, text):
    kind = "OtherRefusal" if name == "other" else "".join(map(str.capitalize, name.split("_")))
    # What is not UTF-8 is replaced when it becomes a message.
    readable = text.encode("latin-1").decode("utf-8", "replace").encode().decode("latin-1")
    return error(kind, "not_done", readable)


def rpc_error(decoded):
    """A request that the store could not even read was certainly not carried out, and will never be."""
    is_refused = decoded["status"] in (400, 415, 505)
    failed = error("Rpc", "not_done" if is_refused else "unknown", decoded["message"])
    return failed | {"retryable": not is_refused}


def outcome(verb, reply, version):
    """What a reply with this `__ts` is to a caller. One that is not for this verb is no answer."""
    match verb, reply:
        case _, {"kind": "error", "error": name, "text": text}:
            return refusal(name, text)
        case "set", {"kind": "ok" | "not_applied" as kind} if version:
            return {"is": "applied" if kind == "ok" else "not_applied", "version": version}
        case "get", {"kind": "value", "value": value} if version:
            return {"is": "value", "value": value, "version": version}
        case ("get", {"kind": "nil"}) | ("del" | "vdel", {"kind": "count", "count": "0"}):
            return {"is": "absent"}
        case "del" | "vdel", {"kind": "count", "count": "1"}:
            return {"is": "deleted", "version": version}
        case "vdel", {"kind": "not_applied"}:
            return {"is": "mismatch", "version": None}
        case "scan", {"kind": "page", "keys": keys}:
            return {"is": "keys", "keys": keys}
        case "observe", {"kind": "ok"}:
            return {"is": "observing"}
    return error("InvalidResponse", "unknown")


def verb_and_call(decoded):
    """A request as a call: without what is absent, `expires_in` in milliseconds."""
    match decoded:
        case {"command": "SET", "key": key, "value": value}:
            call = {"key": key, "value": value, "condition": WORDS[decoded.get("condition")]}
            return "set", call | ({"expires_in": int(decoded["px"])} if "px" in decoded else {})
        case {"command": "VDEL", "key": key, "value": value}:
            return "vdel", {"key": key, "value": value}
        case {"command": "SCAN", "pattern": pattern}:
            return "scan", {"pattern": pattern}
        case {"command": "KEYNOTIFY", "key": key, "stop": stop}:
            return ("stop" if stop else "observe"), {"key": key}
        case {"command": "GET" | "DEL" as command, "key": key}:
            return command.lower(), {"key": key}
    raise ValueError(decoded)


def action(case, reply=None, version=ANSWERED["version"], gives=None, name=None, options=None, **exchange):
    """The call behind a request of the vectors, which is answered with a reply of the vectors."""
    verb, call = verb_and_call(case["decode"])
    reply = reply or ANSWERS[verb]
    request = case.get("encode", case["payload"])
    exchanges = [Exchange(request, reply["payload"], on_its_own=verb == "stop", **exchange)]
    if verb == "stop":
        gives = {"is": "stopped"}
    if verb == "scan":
        if (token := case["decode"]["token"]) is not None:
            # A caller passes no token: it comes with the page before.
            before = f"*2\r\n*0\r\n{bulk(token)}"
            exchanges.insert(0, Exchange(array("SCAN", call["pattern"]), before))
        if (token := reply["decode"].get("token")) is not None:
            exchanges.append(Exchange(array("SCAN", call["pattern"], token), ANSWERS["scan"]["payload"]))
    gives = gives or outcome(verb, reply["decode"], version)
    return Action(name or case["name"], {"call": verb} | call | (options or {}), gives, exchanges)


def watched(key):
    """Observing a key."""
    case = {"name": "observe", "decode": {"command": "KEYNOTIFY", "key": key, "stop": False}}
    return action(case | {"payload": array("KEYNOTIFY", key)})


def stopped(key):
    case = {"name": "stop", "decode": {"command": "KEYNOTIFY", "key": key, "stop": True}}
    return action(case | {"payload": array("KEYNOTIFY", key, "STOP")})


def pushed(name, message):
    """A request before whose answer a message comes."""
    return action(VERBS["get"], name=name, messages=[message])


def seen(name, event):
    """The next thing that the observer sees."""
    seen = {part: event[part] for part in ("value", "version") if part in event}
    return Action(name, {"call": "next"}, {"is": event["event"]} | seen)


def counted(name, notifications, malformed_messages):
    gives = {"notifications": notifications, "stale_notifications": 0, "malformed_messages": malformed_messages}
    return Action(name, {"call": "counters"}, {"is": "counters"} | gives)


def still_there():
    """No answer before may have harmed the connection."""
    return action(VERBS["get"], name="the connection is still there")


def answered(name, reply, verbs):
    """What these verbs make of a reply."""
    for verb in verbs:
        case = VERBS[verb]
        yield action(case, reply, name=f"{name}, to {verb}")
        if verb == "observe" and reply["decode"].get("kind") == "ok":
            yield stopped(case["decode"]["key"])


def requests():
    """Every request that a client sends, with every set of user properties that it sends."""
    actions = sent_payloads(beyond_53_bits=False)
    for case in SENT.values():
        options = {"persist": case["persist"]}
        if case["fencing_token"]:
            options["fencing_token"] = case["fencing_token"]
        actions.append(action(VERBS["set"], name=f"properties: {case['name']}", options=options, sends=case))
    return [Connection(PLAIN["client_id"], [*actions, still_there()])]


def requests_beyond_53_bits():
    """The requests with numbers that not every language has, or takes for what they are."""
    return [Connection(PLAIN["client_id"], [*sent_payloads(beyond_53_bits=True), still_there()])]


def sent_payloads(beyond_53_bits):
    good = [case for case in PAYLOADS.values() if "error" not in case["decode"]]
    return [action(case) for case in good if (int(case["decode"].get("px", 0)) >= 2**53) == beyond_53_bits]


def replies():
    """Every reply: a good one to every verb, one that is an error with every verb to one verb after the other."""
    actions, turns = [], cycle(VERBS)
    for case in REPLIES.values():
        is_good = case["decode"].get("kind", "error") != "error"
        actions += answered(case["name"], case, VERBS if is_good else [next(turns)])
    return [Connection(PLAIN["client_id"], [*actions, still_there()])]


def errors():
    """Every form of every error that a store answers, to one verb after the other."""
    actions, turns = [], cycle(VERBS)
    for row in load("errors")["service_errors"]:
        decode = {"kind": "error", "error": row["name"], "text": row["text"]}
        for form in row["accept"]:
            actions += answered(repr(form), {"payload": form, "decode": decode}, [next(turns)])
    return [Connection(PLAIN["client_id"], [*actions, still_there()])]


def responses():
    """Every set of user properties of a response, with results that need a version and one that does not."""
    actions = []
    good = {"set": "SET applied", "get": "document sample value", "del": "one key deleted"}
    for case in RESPONSES["properties_read_by_a_client"]:
        decode = case["decode"]
        for verb, reply in good.items():
            gives = rpc_error(decode["error"]) if "error" in decode else None
            name = f"{case['name']}, to {verb}"
            version, properties = decode.get("version"), case["properties"]
            actions.append(action(VERBS[verb], REPLIES[reply], version, gives, name, properties=properties))
    return [Connection(PLAIN["client_id"], [*actions, still_there()])]


def notifications():
    """Every notification that MQTT can carry.

    All good ones have the same version, so each comes to a client of its own. The others must leave the observer alone.
    """
    connections, ignored = [], None
    for case in NOTIFICATIONS:
        name, client_id = case["name"], case["client_id"]
        message = Message(case["topic"], case["payload"], case["timestamp"])
        if not message.topic or re.search("[+#]", message.topic):
            continue
        if "error" not in case["decode"]:
            key = case["decode"]["key"]
            actions = [watched(key), pushed(name, message), seen(name, case["decode"]), counted(name, 1, 0)]
            connections.append(Connection(client_id, actions))
            ignored = None
            continue
        if connections[-1].client_id != client_id or ignored is None:
            connections.append(Connection(client_id, [watched(NOTIFICATIONS[0]["decode"]["key"])]))
            ignored = 0
        ignored += 1
        connections[-1].actions += [pushed(name, message), counted(name, 0, ignored)]
    # After all that was ignored, the observer sees what is for it.
    last, good = connections[-1], NOTIFICATIONS[0]
    assert last.client_id == good["client_id"]
    last.actions.append(pushed(good["name"], Message(good["topic"], good["payload"], good["timestamp"])))
    last.actions.append(seen(good["name"], good["decode"]))
    for connection in connections:
        connection.actions += [stopped(connection.actions[0].call["key"]), still_there()]
    return connections


def topics():
    """Every client id and key whose topics are written down."""
    good, connections = NOTIFICATIONS[0], []
    for case in TOPICS["notification"]:
        message = Message(case["topic"], good["payload"], good["timestamp"])
        name = case["topic"]
        actions = [watched(case["key"]), pushed(name, message), seen(name, good["decode"]), stopped(case["key"])]
        connections.append(Connection(case["client_id"], [*actions, still_there()]))
    return connections


def read_many(name, keys, exchanges, gives):
    """A call for several keys, of one character each."""
    return Action(name, {"call": "get_many", "keys": keys}, gives, exchanges)


def entries(found, is_snapshot):
    """What `get_many` gives for pairs of value and version, and for absent keys."""
    shown = [pair and {"value": pair[0], "version": padded(pair[1])} for pair in found]
    return {"is": "entries", "entries": shown, "snapshot": is_snapshot}


def padded(version):
    wall, counter, node = version.split(":")
    return f"{int(wall):015}:{int(counter):05}:{node}"


def entries_of_one_response():
    """Every reply to MGET: the good ones to as many keys as they have and to one more, the others to one key."""
    actions = []
    for case in EXTENSIONS.values():
        if not case["name"].startswith("entries of an MGET"):
            continue
        found = case["decode"].get("entries")
        invalid = error("InvalidResponse", "unknown")
        for keys in ["a", "b", "c"][: len(found or "a")], ["a", "b", "c", "d", "e"]:
            is_good = found is not None and case["decode"]["omitted"] == "0" and len(keys) == len(found)
            exchange = Exchange(array("MGET", *keys), case["payload"])
            name = f"{case['name']}, for the keys {' '.join(keys)}"
            actions.append(read_many(name, keys, [exchange], entries(found, True) if is_good else invalid))
    refused = Exchange(array("MGET", "a", "b"), "-ERR not authorized\r\n")
    actions.append(read_many("a refused MGET", ["a", "b"], [refused], refusal("not_authorized", "not authorized")))
    return actions


def entries_of_several_responses():
    """The keys that a response omits are requested again, no more than twice as many as it had."""
    several, some, one = (
        EXTENSIONS[f"entries of an MGET{rest}"]
        for rest in (" that omits the last three keys", ", the second key is absent", " of one absent key")
    )
    steps = (["a", "b", "c", "d"], several), (["b", "c"], some), (["d"], one)
    exchanges = [Exchange(array("MGET", *keys), case["payload"]) for keys, case in steps]
    found = [pair for _, case in steps for pair in case["decode"]["entries"]]
    return read_many("keys that the first response omits", ["a", "b", "c", "d"], exchanges, entries(found, False))


def single_gets(name, *before):
    absent = REPLIES["GET of an absent key"]["payload"]
    exchanges = [Exchange(array("GET", key), absent) for key in ("a", "b")]
    return read_many(name, ["a", "b"], [*before, *exchanges], entries([None, None], False))


def many():
    """Reads of several keys: one response, several, and single GETs where the store has no MGET."""
    empty = Action("no keys", {"call": "get_many", "keys": []}, entries([], True))
    connections = []
    for name in ("all capabilities", "capabilities of a store that reads in one way only", "no capabilities", None):
        reply = EXTENSIONS[name]["payload"] if name else "-ERR unknown command\r\n"
        query = Exchange(array("CAPS"), reply)
        if not connections:
            first, *others = entries_of_one_response()
            first.exchanges.insert(0, query)
            actions = [empty, first, *others, entries_of_several_responses()]
        else:
            name = name or "an unknown query of capabilities"
            actions = [empty, single_gets(name, query), single_gets(f"{name}, asked before")]
        connections.append(Connection(PLAIN["client_id"], [*actions, still_there()]))
    return connections


ALL = (requests, requests_beyond_53_bits, replies, errors, responses, notifications, topics, many)
PLAYS = {play.__name__: play for play in ALL}


def plan(play):
    """What is to be done and what comes out of it: connections with their actions, ready for JSON."""
    return [
        {
            "client_id": connection.client_id,
            "actions": [{"name": action.name} | action.call | {"gives": action.gives} for action in connection.actions],
        }
        for connection in PLAYS[play]()
    ]


def response_topic(client_id):
    """Where the responses to this client go."""
    (case,) = TOPICS["response"]
    return case["topic"].replace(case["client_id"], client_id)


def notification_filter(client_id):
    """What this client subscribes to for its notifications."""
    case = TOPICS["notification"][0]
    hexadecimal = lambda text: text.encode("latin-1").hex().upper()
    return case["filter"].replace(hexadecimal(case["client_id"]), hexadecimal(client_id))


assert all(notification_filter(case["client_id"]) == case["filter"] for case in TOPICS["notification"])
