"""Effects of the options that need an etcd, a Redis or a Mosquitto. Each class is a server, as in ``local_options``."""

import base64
import hashlib
import hmac
import json
import os
import struct
import subprocess
import urllib.error
import urllib.request

import broker
import engine
from option_group import OK, Group, effect
from optioned import until
from peer import Peer
from server import HANG_TIMEOUT
from store import REQUEST, array, response_topic, timestamp, user_properties

USER, PASSWORD = "root", "secret"


class SecureRedis(engine.Redis):
    """A Redis with TLS that requires a certificate and a password."""

    def __init__(self, tls):
        self._tls = tls
        super().__init__()

    def command(self):
        certificate, key = self._tls.server
        return [
            "redis-server", "--bind", "127.0.0.1", "--dir", self.folder, "--appendonly", "yes", "--save", "", "--port", "0",
            "--tls-port", str(self.port), "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", self._tls.authority.ca,
            "--tls-auth-clients", "yes", "--user", USER, "on", f">{PASSWORD}", "~*", "&*", "+@all", "--user", "default", "off",
        ]  # fmt: skip


class SecureEtcd(engine.Etcd):
    """An etcd with TLS that requires a certificate."""

    def __init__(self, tls):
        self._tls = tls
        super().__init__()

    def command(self):
        certificate, key = self._tls.server
        plain = [it.replace("http://", "https://") if "client-urls" in it else it for it in super().command()]
        return [*plain, f"--cert-file={certificate}", f"--key-file={key}", f"--trusted-ca-file={self._tls.authority.ca}", "--client-cert-auth"]


class LockedEtcd(engine.Etcd):
    """An etcd that requires a user and a password."""

    def __init__(self):
        super().__init__()
        self._post("auth/user/add", name=USER, password=PASSWORD)
        self._post("auth/role/add", name=USER)
        self._post("auth/user/grant", user=USER, role=USER)
        self._post("auth/enable")
        self._token = self._post("auth/authenticate", name=USER, password=PASSWORD)["token"]

    def _post(self, what, headers=None, **words):
        address = f"http://127.0.0.1:{self.port}/v3/{what}"
        request = urllib.request.Request(address, json.dumps(words).encode(), headers or {})
        with urllib.request.urlopen(request, timeout=HANG_TIMEOUT) as answer:
            return json.load(answer)

    def has_forgotten(self, revision):
        """Whether it has compacted that revision."""
        try:
            self._post("kv/range", {"Authorization": self._token}, key=base64.b64encode(b"k").decode(), revision=str(revision))
        except urllib.error.HTTPError as error:
            assert b"compacted" in error.read()
            return True
        return False


class GuardedMosquitto(broker.Mosquitto):
    """A Mosquitto with an open listener at ``port``, and one at ``secure_port`` that requires a certificate and a password. It logs into
    ``log``."""

    def __init__(self, tls):
        self._tls = tls
        super().__init__()

    def command(self):
        certificate, key = self._tls.server
        config, users, self.log = (os.path.join(self.folder, name) for name in ("mosquitto.conf", "users", "log"))
        subprocess.run(["mosquitto_passwd", "-b", "-c", users, USER, PASSWORD], check=True, capture_output=True)
        self.secure_port = engine.free_port()
        with open(config, "w") as file:
            file.write(
                f"per_listener_settings true\nuser root\npersistence false\nlog_type all\nlog_dest stderr\nlog_dest file {self.log}\n"
                f"listener {self.port} 127.0.0.1\nallow_anonymous true\n"
                f"listener {self.secure_port} 127.0.0.1\nallow_anonymous false\npassword_file {users}\n"
                f"cafile {self._tls.authority.ca}\ncertfile {certificate}\nkeyfile {key}\nrequire_certificate true\n"
            )
        return ["mosquitto", "-c", config]

    def has_logged(self, text):
        with open(self.log) as log:
            return text in log.read()


class OverRedis(Group):
    """A Redis with TLS, certificates and a password."""

    engine = "redis"

    def options(self):
        redis, tls = self.tools.secure_redis, self.tools.certificates
        certificate, key = tls.client
        password = self.folder / "password"
        password.write_text(PASSWORD + "\n")
        storage = f"rediss://127.0.0.1:{redis.port}?prefix={self.way}"
        return {
            "storage": storage, "redis-ca": tls.authority.ca, "redis-cert": certificate, "redis-key": key, "redis-user": USER,
            "redis-password-file": password,
        }  # fmt: skip

    @effect
    def redis_ca(self):
        assert self.server.store().reply("SET", "k", "v") == OK

    redis_cert = redis_key = redis_user = redis_password_file = redis_ca


class Replicated(Group):
    """A Redis without the replica whose confirmation is required."""

    engine = "redis"

    def options(self):
        return {"storage": self.tools.redis.storage(f"replicas-{self.way}"), "redis-replicas": 1}

    @effect
    def redis_replicas(self):
        until("the missing replica is logged", lambda: "too few replicas have them" in self.server.log())


class ClockAhead(Group):
    """A clock that is 45 seconds ahead of Redis's; without the option, 60 are allowed."""

    engine = "redis"

    def options(self):
        disk = self.tools.disk(self.folder)
        disk.set(clock_ahead_ms=45_000)
        self.environment = disk.environment
        return {"storage": self.tools.redis.storage(f"clock-{self.way}"), "max-clock-ahead": "30s"}

    @effect
    def max_clock_ahead(self):
        until("changes are refused", lambda: self.server.metric("statestored_engine_clock_refused") == 1)
        assert b"clock" in self.server.store().reply("SET", "k", "v")


class OverSecureEtcd(Group):
    """An etcd with TLS and certificates."""

    engine = "etcd"

    def options(self):
        etcd, tls = self.tools.secure_etcd, self.tools.certificates
        certificate, key = tls.client
        storage = f"etcds://127.0.0.1:{etcd.port}/{self.way}"
        return {"storage": storage, "etcd-ca": tls.authority.ca, "etcd-cert": certificate, "etcd-key": key}

    @effect
    def etcd_ca(self):
        assert self.server.store().reply("SET", "k", "v") == OK

    etcd_cert = etcd_key = etcd_ca


class OverLockedEtcd(Group):
    """An etcd with users and a short history."""

    engine = "etcd"

    def options(self):
        password = self.folder / "password"
        password.write_text(PASSWORD + "\n")
        # A compaction holds for all stores of an etcd, so each server gets its own.
        self.etcd = LockedEtcd()
        return {"storage": self.etcd.storage("store"), "etcd-user": USER, "etcd-password-file": password, "etcd-history": "1s"}

    @effect
    def etcd_user(self):
        assert self.server.store().reply("SET", "k", "v") == OK

    etcd_password_file = etcd_user

    @effect
    def etcd_history(self):
        store = self.server.store()
        for number in range(3):
            assert store.reply("SET", "k", str(number)) == OK
        until("revision 2 is compacted", lambda: self.etcd.has_forgotten(2))

    def end(self):
        super().end()
        self.etcd.end()


class Attached(Group):
    """A server behind a Mosquitto with TLS, certificates, passwords and signed requests; its entries are in Redis."""

    engine = "redis"

    def options(self):
        self.mosquitto, tls = self.tools.mosquitto, self.tools.certificates
        certificate, key = tls.client
        password, identity = self.folder / "password", self.folder / "identity"
        password.write_text(PASSWORD + "\n")
        identity.write_text("k" * 40 + "\n")
        self.key, self.peers = b"k" * 40, []
        return {
            "storage": self.tools.redis.storage(f"attached-{self.way}"),
            "attach": f"mqtts://localhost:{self.mosquitto.secure_port}",
            "attach-client-id": f"store-{self.way}",
            "attach-share": f"nodes-{self.way}",
            "attach-watch-lease": "1s",
            "attach-identity": "identity",
            "attach-identity-key": identity,
            "attach-user": USER,
            "attach-password-file": password,
            "attach-ca": tls.authority.ca,
            "attach-cert": certificate,
            "attach-key": key,
        }

    def begin(self):
        until("the server is attached", lambda: self.server.metric("statestored_attached") == 1)

    def settle(self):
        for peer in self.peers:
            peer.end()
        self.peers.clear()

    def end(self):
        super().end()
        self.settle()

    def _peer(self, client_id="client"):
        peer = Peer(self.mosquitto.port, client_id)
        self.peers.append(peer)
        peer.subscribe(response_topic(client_id))
        return peer

    def _ask(self, peer, key, *words):
        """Publishes a request, signed if there is a key."""
        topic, payload, stamp, correlation = response_topic("client"), array(*words), timestamp(), os.urandom(8)
        parts = [b"client", b"", REQUEST.encode(), topic.encode(), correlation, payload, b"__ts", stamp.encode()]
        signed = b"".join(struct.pack(">I", len(part)) + part for part in parts)
        names = [("__ts", stamp)]
        if key:
            names.append(("identity", f"{hmac.new(key, signed, hashlib.sha256).hexdigest()} 6 client"))
        peer.publish(REQUEST, payload, ResponseTopic=topic, CorrelationData=correlation, UserProperty=names)

    @effect
    def attach(self):
        peer = self._peer()
        self._ask(peer, self.key, "SET", "k", "v")
        message = peer.message()
        assert message.payload == OK and "__ts" in user_properties(message)

    attach_identity_key = attach_password_file = attach_ca = attach_cert = attach_key = attach

    @effect
    def attach_client_id(self):
        until("the client id is logged", lambda: self.mosquitto.has_logged(f" as store-{self.way} "))

    @effect
    def attach_user(self):
        until("the user is logged", lambda: self.mosquitto.has_logged(f"u'{USER}'"))

    @effect
    def attach_share(self):
        until("the shared subscription is logged", lambda: self.mosquitto.has_logged(f"$share/nodes-{self.way}/{REQUEST}"))

    @effect
    def attach_identity(self):
        peer, unproven = self._peer(), "statestored_attached_unproven_total"
        before = self.server.metric(unproven)
        self._ask(peer, None, "GET", "k")
        until("the unsigned request is ignored", lambda: self.server.metric(unproven) == before + 1)
        self._ask(peer, b"x" * 40, "GET", "k")
        until("the wrongly signed request is ignored", lambda: self.server.metric(unproven) == before + 2)

    @effect
    def attach_watch_lease(self):
        peer = self._peer()
        self._ask(peer, self.key, "KEYNOTIFY", "k")
        assert peer.message().payload == OK
        until("the watch ends", lambda: self.server.metric("statestored_watches") == 0)


GROUPS = [OverRedis, Replicated, ClockAhead, OverSecureEtcd, OverLockedEtcd, Attached]
