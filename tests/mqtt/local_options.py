"""Effects of the options of listeners, HTTP, logs, limits and storage. Each class starts a server; each effect is a method named after its option."""

import base64
import json
import os
import re
import stat

import wire
from option_group import OK, Group, effect
from optioned import LONG, Served, login_packet, until, upgrade
from store import REQUEST, array, response_topic

QUOTA = b"-ERR the quota has been exceeded\r\n"
QUOTA_EXCEEDED = 0x97


class Process(Group):
    """Listeners, HTTP, logs, and storage in memory."""

    def options(self):
        operate, read, metrics = (self.folder / name for name in ("token", "read-token", "metrics-token"))
        operate.write_text("a-token-of-the-operator\n")
        read.write_text("a-token-of-a-reader\n")
        metrics.write_text("a-token-of-prometheus\n")
        return {
            "listen": ["tcp://127.0.0.1:0", f"unix://{self.folder}/socket", "ws://127.0.0.1:0"],
            "unix-mode": "0640",
            "ws-allow-origin": ["https://page.example"],
            "storage": "memory",
            "http-token-file": operate,
            "http-read-token-file": read,
            "http-metrics-token-file": metrics,
            "http-host": ["metrics.example"],
            "metrics-names": "both",
            "metrics-namespace": "plant",
            "metrics-backend-chain": "7",
            "core-dumps": True,
            "log": "debug",
            "log-format": "json",
        }

    @effect
    def listen(self):
        schemes = [address.split(":", 1)[0] for address in self.server.addresses]
        assert schemes == ["tcp", "unix", "ws"]
        assert self.server.store().reply("SET", "k", "v") == OK

    @effect
    def unix_mode(self):
        assert stat.S_IMODE(os.stat(self.folder / "socket").st_mode) == 0o640

    @effect
    def ws_allow_origin(self):
        assert upgrade(self.server.port(2), "https://page.example") == 101
        assert upgrade(self.server.port(2), "https://other.example") == 403

    @effect
    def storage(self):
        assert self.server.store().reply("SET", "k", "v") == OK
        assert not (self.folder / "share").exists(), "nothing is written to the user's data folder"

    @effect
    def http(self):
        assert self.server.request("GET", "/healthz") == (200, "alive\n")

    @effect
    def http_token_file(self):
        for token, status in [("a-token-of-the-operator", 200), ("a-token-of-another", 401)]:
            assert self.server.request("POST", "/api/reload", {"Authorization": f"Bearer {token}"})[0] == status

    def _status(self, path, token):
        return self.server.request("GET", path, {"Authorization": f"Bearer {token}"})[0]

    @effect
    def http_read_token_file(self):
        assert self._status("/api/keys", "a-token-of-a-reader") == 200
        assert self._status("/api/keys", "a-token-of-another") == 401

    @effect
    def http_metrics_token_file(self):
        assert self._status("/metrics", "a-token-of-prometheus") == 200
        assert self._status("/metrics", "a-token-of-another") == 401

    @effect
    def http_host(self):
        assert self.server.request("GET", "/healthz", {"Host": "metrics.example"})[0] == 200
        assert self.server.request("GET", "/healthz", {"Host": "other.example"})[0] == 421

    def _deployed(self):
        _, text = self.server.request("GET", "/metrics")
        return re.search(r"^aio_broker_state_store_retrievals\{(.*)\} ", text, re.MULTILINE)[1]

    @effect
    def metrics_names(self):
        assert self._deployed()
        assert self.server.metric("statestored_serving") == 1

    @effect
    def metrics_namespace(self):
        assert 'namespace="plant"' in self._deployed()

    @effect
    def metrics_backend_chain(self):
        assert 'backend_chain="7"' in self._deployed()

    @effect
    def core_dumps(self):
        with open(f"/proc/{self.server.process.pid}/limits") as limits:
            [soft] = re.findall(r"^Max core file size +(\w+)", limits.read(), re.MULTILINE)
        assert soft == "unlimited"

    @effect
    def log(self):
        connection, _ = self.server.dial("client")
        connection.send(b"\0\0")
        assert connection.is_closed() == (True, 0x81)
        until("a line of the level debug", lambda: "disconnecting a client" in self.server.log())

    @effect
    def log_format(self):
        until("a line of JSON", lambda: self.server.log().startswith("{"))


class Input(Group):
    """A server whose standard input is a pipe."""

    def options(self):
        return {"stop-with-stdin": True}

    @effect
    def stop_with_stdin(self):
        self.server.process.stdin.close()
        assert self.server.process.wait(LONG) == 0

    def settle(self):
        """There is no server any more."""


class Audit(Group):
    """The audit trail of a client that is refused many requests."""

    refused = 200

    def options(self):
        return {"audit-keys": True, "audit-rate": 1, "max-keys": 1, "slow-request": "0ms"}

    def _is_refused(self):
        """Sends requests that are refused. Returns their record, and the number of lines about them in the log."""
        before = self.server.log().count("was refused")
        store = self.server.store("eager")
        assert store.reply("SET", "first", "v") == OK
        assert all(store.reply("SET", "second", "v") == QUOTA for _ in range(self.refused))
        _, text = self.server.request("GET", "/api/refusals")
        # The log is written later than a response.
        self.hang_up()
        return json.loads(text)["items"][0], self.server.log().count("was refused") - before

    @effect
    def audit_keys(self):
        refusal, _ = self._is_refused()
        assert refusal["key"] and refusal["key"]["text"] == "second", refusal

    @effect
    def audit_rate(self):
        refusal, lines = self._is_refused()
        assert refusal["count"] % self.refused == 0, refusal
        assert lines < self.refused and "was refused" in self.server.log()

    @effect
    def slow_request(self):
        store = self.server.store("quick")
        for _ in range(50):
            store.reply("GET", "any")
        _, text = self.server.request("GET", "/api/slowlog")
        of_quick = [item for item in json.loads(text)["items"] if item["client"] == "quick"]
        assert len(of_quick) == 50 and of_quick[0]["verb"] == "get", text


class BehindProxy(Group):
    """A listener whose connections come through a proxy."""

    def options(self):
        return {"trusted-proxy": ["192.0.2.0/24", "127.0.0.1"]}

    @effect
    def trusted_proxy(self):
        connection = self.server.connect()
        connection.send(b"PROXY TCP4 198.51.100.7 127.0.0.1 50000 1883\r\n", login_packet("client"))
        assert connection.expect(wire.CONNACK)[1] == 0
        _, text = self.server.request("GET", "/api/connections")
        assert [item["peer"] for item in json.loads(text)["items"]] == ["198.51.100.7:50000"], text
        assert self.server.dial("client")[1] is None, "it sends no header"


class StoreLimits(Group):
    """Limits of keys, bytes, watches and queued messages."""

    def options(self):
        return {
            "max-keys": 5,
            "max-bytes": 6_000,
            "max-watches": 1,
            "limit-prefix": ["machines/ keys=1"],
            "max-session-bytes": "1MiB",
        }

    @effect
    def max_keys(self):
        self._fills([("SET", f"k{number}", "v") for number in range(6)])

    @effect
    def max_bytes(self):
        self._fills([("SET", f"k{number}", "v" * 2_000) for number in range(4)], least=1)

    @effect
    def limit_prefix(self):
        self._fills([("SET", f"machines/{number}", "v") for number in range(2)])

    def _fills(self, requests, least=None):
        """Asserts that the last request is refused, and that at least the first ``least`` are not (default: all others)."""
        store = self.server.store()
        replies = [store.reply(*request) for request in requests]
        for request in requests:
            store.reply("DEL", request[1])
        expected = len(requests) - 1 if least is None else least
        assert replies[:expected] == [OK] * expected and replies[-1] == QUOTA, replies

    @effect
    def max_watches(self):
        store = self.server.store()
        assert store.reply("KEYNOTIFY", "a") == OK
        assert store.reply("KEYNOTIFY", "b") == QUOTA

    @effect
    def max_session_bytes(self):
        away = self.server.peer("away", session_expiry=60)
        away.subscribe("queue")
        away.cut()
        publisher = self.server.peer("publisher")
        for _ in range(4):
            publisher.publish("queue", bytes(400_000))
        again = self.server.peer("away", clean_start=False)
        assert len(again.received()) < 4


class ClientLimits(Group):
    """Limits of connections, sessions and packets."""

    def options(self):
        return {"max-connections": 3, "max-sessions": 2, "max-packet-bytes": 2_000}

    @effect
    def max_connections(self):
        assert [self.server.dial(f"client{number}")[1] for number in range(2)] == [0, 0]
        # Without CONNECT, so that --max-sessions does not count it.
        self.server.connect()
        until("three connections", lambda: self.server.metric("statestored_connections") == 3)
        assert self.server.dial("client1")[1] is None

    @effect
    def max_sessions(self):
        codes = [self.server.dial(f"client{number}")[1] for number in range(3)]
        assert codes == [0, 0, QUOTA_EXCEEDED]

    @effect
    def max_packet_bytes(self):
        assert self.server.peer("client").connack.MaximumPacketSize == 2_000
        connection, _ = self.server.dial("large")
        connection.send(wire.publish("topic", bytes(2_000), 1))
        assert connection.is_closed() == (True, 0x95)


class _Rate(Group):
    def is_paused(self):
        connection, _ = self.server.dial("client")
        connection.send(*(wire.publish("topic", bytes(200), number) for number in range(1, 4)))
        for _ in range(3):
            connection.expect(wire.PUBACK)
        assert self.server.metric("statestored_pauses_total") > 0


class RequestRate(_Rate):
    """A low rate of PUBLISH packets."""

    def options(self):
        return {"max-request-rate": 2}

    @effect
    def max_request_rate(self):
        self.is_paused()


class ByteRate(_Rate):
    """A low rate of bytes."""

    def options(self):
        return {"max-byte-rate": 500}

    @effect
    def max_byte_rate(self):
        self.is_paused()


class _Restarted(Group):
    """A server that stores some keys; after a restart with --persist-mode all, ``kept`` has those found on disk."""

    requests = ()

    def begin(self):
        store = self.server.store()
        for key, names in self.requests:
            assert store.reply("SET", key, "v", names=names) == OK
        assert self.server.end() == 0
        self.server.close()
        self.server = Served("flag", {"listen": ["tcp://127.0.0.1:0"], "http": "http://127.0.0.1:0", "data-dir": self.folder / "data"}, self.folder)
        store = self.server.store()
        self.kept = {key for key, _ in self.requests if store.reply("GET", key) != b"$-1\r\n"}


class KeptKeys(_Restarted):
    """A durable server that keeps some keys."""

    requests = [
        (b"glob1", ()),
        (b"text", ()),
        (b"\0\xff", ()),
        (b"asked", [("aio-persistence", "true")]),
        (b"other", ()),
    ]

    def options(self):
        return {
            "data-dir": self.folder / "data",
            "persist-mode": "custom",
            "persist-glob-keys": ["glob*"],
            "persist-str-keys": ["text"],
            "persist-bin-keys": [base64.b64encode(b"\0\xff").decode()],
            "persist-dynamic": "disabled",
        }

    @effect
    def data_dir(self):
        assert (self.folder / "data" / "statestore.manifest").exists()
        assert not (self.folder / "share").exists()

    @effect
    def persist_mode(self):
        assert b"other" not in self.kept

    @effect
    def persist_glob_keys(self):
        assert b"glob1" in self.kept

    @effect
    def persist_str_keys(self):
        assert b"text" in self.kept

    @effect
    def persist_bin_keys(self):
        assert b"\0\xff" in self.kept

    @effect
    def persist_dynamic(self):
        assert b"asked" not in self.kept


class KeptOnRequest(_Restarted):
    """A durable server that keeps keys whose SET has a certain user property."""

    requests = [(b"asked", [("keep", "yes")]), (b"usual", [("aio-persistence", "true")])]

    def options(self):
        return {"data-dir": self.folder / "data", "persist-mode": "custom", "persist-property": "keep=yes"}

    @effect
    def persist_property(self):
        assert self.kept == {b"asked"}


class SlowDisk(Group):
    """A disk that hangs when the server stops."""

    def options(self):
        self.disk = self.tools.disk(self.folder)
        self.environment = self.disk.environment
        return {"data-dir": self.folder / "data", "stop-timeout": "1s"}

    @effect
    def stop_timeout(self):
        connection, _ = self.server.dial("client")
        self.disk.set(sync_delay_ms=86_400_000)
        properties = b"\x08" + wire.binary(response_topic("client")) + b"\x09" + wire.binary(b"c") + wire.user_property("__ts", "1:0:client")
        connection.send(wire.publish(REQUEST, array("SET", "k", "v"), 1, properties=properties), b"\xc0\0")
        assert connection.read() == (0xD0, b""), "the request was read"
        assert self.server.end() == 1
        assert "the disk does not answer" in self.server.log()

    def settle(self):
        self.disk.set()


GROUPS = [Process, Input, Audit, BehindProxy, StoreLimits, ClientLimits, RequestRate, ByteRate, KeptKeys, KeptOnRequest, SlowDisk]
