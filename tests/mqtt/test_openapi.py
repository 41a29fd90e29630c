"""The description of the HTTP interface, held against a server: what it answers, to valid requests and to others."""

import copy
import json
from urllib.parse import quote, urlencode

import jsonschema
import pytest
from drill import TOKEN, Drilled

# Values that make each request of the description valid.
QUERIES = {"client": "described", "key": "line1/state", "match": "*", "prefix": "line1/", "details": "1"}
BODIES = {
    "/api/delete": {"key": "obsolete"},
    "/api/disconnect": {"client": "leaving"},
    "/api/drain": {"on": False},
    "/api/expire": {"key": "line1/state", "expires_in_ms": 60_000},
    "/api/log": {"filter": "info"},
    "/api/policy/check": {"user": "described", "action": "read", "key": "line1/state"},
    "/api/set": {"key": "line1/state", "value": "on"},
    "/api/unlock": {"key": "line1/lock", "holder": "described"},
}
# Values that parameters rarely have.
ODD = ["", "0", "-1", "*", "[", "9" * 30, "\u0000", "\u202e", "%", "a" * 20_000]
ODD_BODIES = [b"", b"null", b"[]", b"{}", b'"', b"{\xff}", b'{"key": 1}', b'{"key": "k", "hex": "6b"}', b'{"unknown": 1}', b"[" * 100_000]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Drilled(tmp_path_factory.mktemp("openapi"), max_keys=1_000)
    try:
        store = server.store("described")
        for key in ("line1/state", "line1/count", "obsolete"):
            assert store.reply("SET", key, "v") == b"+OK\r\n"
        assert store.reply("SET", "line1/lock", "described", "NX", "PX", "60000") == b"+OK\r\n"
        assert store.reply("KEYNOTIFY", "line1/state") == b"+OK\r\n"
        server.store("leaving")
        yield server
    finally:
        server.close()


@pytest.fixture(scope="module")
def description(server):
    return server.api("openapi.json")


def exact(schema):
    """The schema, which then allows no property that it does not name."""
    if isinstance(schema, list):
        return [exact(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: exact(value) for name, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        schema["additionalProperties"] = False
    return schema


def check(description, operation, status, text):
    """Checks that the description has this status, and that the text is as it says."""
    answers = operation["responses"]
    assert str(status) in answers, f"{status} is not described: {text[:200]}"
    answer = answers[str(status)]
    if "$ref" in answer:
        answer = description["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
    content = answer["content"].get("application/json")
    if content:
        schema = {**exact(copy.deepcopy(content["schema"])), "components": exact(description["components"])}
        jsonschema.validate(json.loads(text), schema, jsonschema.Draft202012Validator)


def ask(server, method, path, query=None, body=None):
    path = f"{path}?{urlencode(query, quote_via=quote)}" if query else path
    return server.request(method.upper(), path, {"Authorization": f"Bearer {TOKEN}"}, body)


def operations(description, *, streams):
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            content = operation["responses"]["200"].get("content", {})
            if ("text/event-stream" in content) == streams:
                yield method, path, operation


def test_valid_requests_are_answered_as_described(server, description):
    for method, path, operation in operations(description, streams=False):
        query = {it["name"]: QUERIES[it["name"]] for it in operation.get("parameters", []) if it["name"] in QUERIES}
        body = json.dumps(BODIES.get(path, {})).encode() if method == "post" else None
        status, text = ask(server, method, path, query, body)
        # A store in memory has no backup.
        assert status == (409 if path == "/api/backup" else 200), f"{method} {path}: {text[:300]}"
        check(description, operation, status, text)


def test_odd_parameters_are_answered_as_described(server, description):
    for method, path, operation in operations(description, streams=False):
        for parameter in operation.get("parameters", []):
            for value in ODD:
                query = {"client": "described"} if path == "/api/client" else {}
                status, text = ask(server, method, path, {**query, parameter["name"]: value})
                # The request line has a limit.
                if status not in (414, 431):
                    check(description, operation, status, text)


def test_odd_bodies_are_rejected_as_described(server, description):
    for method, path, operation in operations(description, streams=False):
        if "requestBody" not in operation:
            continue
        for body in ODD_BODIES:
            status, text = ask(server, method, path, body=body)
            assert 400 <= status < 500, f"{path} {body[:40]}: {status} {text[:200]}"
            check(description, operation, status, text)
    assert server.api("status")["version"]
