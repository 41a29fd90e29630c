"""The drills of ``docs/drills.md``: what shows a fault, how soon, and that service resumes once the cause is gone."""

import signal
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from authority import Authority
from disk import Disk, library
from drill import SOON, Drilled, set_key
from optioned import trust
from peer import Refused
from store import REQUEST, array, timestamp

OK = b"+OK\r\n"
HOUR_MS = 3_600_000
USERS = ["ann", "bob", "cid"]
BAD_USER, TAKEN_OVER, QUOTA_EXCEEDED, RATE_EXCEEDED = 0x86, 0x8E, 0x97, 0x9F


@pytest.fixture
def drill(tmp_path):
    """Starts servers."""
    servers = []

    def drill(**options):
        servers.append(Drilled(tmp_path, **options))
        return servers[-1]

    yield drill
    for server in servers:
        server.close()


@pytest.fixture
def disk(tmp_path):
    return Disk(library(tmp_path), tmp_path)


@pytest.fixture
def users(tmp_path):
    """A file with users whose password is their name."""
    file = tmp_path / "users"
    file.write_text("".join(f"{user}:{user}\n" for user in USERS))
    return file


def login(user):
    return {"user": user, "password": user}


def send(store, key, value):
    """Sends a SET and does not wait."""
    properties = {"ResponseTopic": store.topic, "CorrelationData": key.encode(), "UserProperty": [("__ts", timestamp())]}
    store.peer.send(REQUEST, array("SET", key, value), **properties)


def test_a_full_disk(drill, disk, tmp_path):
    server = drill(environment=disk.environment, data_dir=tmp_path / "data")
    filling, store = server.store("filling"), server.store("store")
    assert set_key(store, "kept") == OK
    server.disturb(disk.set, capacity=20_000_000)
    for number in range(5):
        send(filling, f"k{number}", bytes(8_000_000))
    server.shows(SOON, "read_only", 1)
    server.is_unready(SOON, "disk_full")
    server.logs(SOON, "The store is read-only until there is room")
    assert b"read-only" in set_key(store, "refused")
    server.refuses(SOON, "unavailable", client="store")
    assert store.reply("GET", "kept") == b"$1\r\nv\r\n"
    server.disturb(disk.set)
    server.shows(SOON, "read_only", 0)
    server.is_ready(SOON)
    server.logs(SOON, "there is room on the disk again")
    assert set_key(store, "taken") == OK


def test_a_killed_server(drill, tmp_path):
    server = drill(data_dir=tmp_path / "data")
    assert set_key(server.store(), "kept") == OK
    started = server.api("status")["started_s"]
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    server = drill(data_dir=tmp_path / "data")
    server.is_ready(SOON)
    server.logs(SOON, "the previous run ended without a clean stop")
    server.shows(SOON, "previous_run_crashed", 1)
    status = server.api("status")
    assert status["storage"]["previous_run_crashed"] and status["started_s"] > started
    assert server.store().reply("GET", "kept") == b"$1\r\nv\r\n"


def test_a_clock_that_is_behind(drill, disk, users):
    disk.set(clock_ahead_ms=-HOUR_MS)
    server = drill(environment=disk.environment, users_file=users)
    stores = [server.store(user, **login(user)) for user in USERS]
    for store in stores:
        assert b"timestamp is too far" in server.disturb(set_key, store, "k")
    server.refuses(SOON, "clock", user="cid")
    server.logs(SOON, "ERROR", "SETs are refused")
    server.shows(SOON, 'clock_suspect{direction="behind"}', 1)
    server.is_unready(SOON, "clock_behind")
    assert server.api("status")["clock"]["suspected"] == "behind"
    server.disturb(disk.set)
    server.within(SOON, "SETs are accepted", lambda: [set_key(store, "k") for store in stores] == [OK] * 3)
    server.is_ready(SOON)
    server.shows(SOON, 'clock_suspect{direction="behind"}', 0)


def test_a_clock_that_is_ahead(drill, disk, users):
    disk.set(clock_ahead_ms=HOUR_MS)
    server = drill(environment=disk.environment, users_file=users)
    stores = [server.store(user, **login(user)) for user in USERS]
    assert [server.disturb(set_key, store, "k") for store in stores] == [OK] * 3
    server.logs(SOON, "WARN", "more than a minute behind this machine's clock")
    server.shows(SOON, 'clock_suspect{direction="ahead"}', 1)
    server.warns(SOON, "clock_suspect")
    assert server.api("status")["clock"]["suspected"] == "ahead"
    server.disturb(disk.set)
    server.warns(SOON, "versions_ahead")
    server.logs(SOON, "WARN", "versions of entries are ahead of this machine's clock")
    server.logs(SOON, "WARN", "the wall clock of this machine was set")
    assert [set_key(store, "k") for store in stores] == [OK] * 3
    server.shows(SOON, 'clock_suspect{direction="ahead"}', 0)
    assert server.metric("statestored_clock_steps_total") >= 1


def test_an_expired_certificate_of_the_server(drill, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue_expired("server")
    server = drill(listen=["tls://127.0.0.1:0"], tls_cert=certificate, tls_key=key)
    server.logs(SOON, "ERROR", "the server's certificate has expired")
    server.warns(SOON, "certificate_expired")
    expiry = f'statestored_certificate_expiry_timestamp_seconds{{listener="{server.addresses[0]}"}}'
    assert server.metric(expiry) < time.time()
    assert server.disturb(server.dial, "client", tls=trust(authority))[1] is None
    server.shows(SOON, 'tls_handshakes_failed_total{reason="server_certificate_expired"}', 1)
    renewed, key_of_renewed = authority.issue("renewed")
    key_of_renewed.replace(key)
    server.disturb(renewed.replace, certificate)
    server.within(SOON, "clients connect", lambda: server.dial("client", tls=trust(authority))[1] == 0)
    server.logs(SOON, "the certificates were read again")
    assert server.metric(expiry) > time.time()


def test_an_expired_certificate_of_a_client(drill, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    server = drill(listen=["tls://127.0.0.1:0"], tls_cert=certificate, tls_key=key, tls_client_ca=authority.ca)
    expired = authority.issue_expired("pump")
    assert server.disturb(server.dial, "pump", tls=trust(authority, expired))[1] is None
    server.shows(SOON, 'tls_handshakes_failed_total{reason="client_certificate_expired"}', 1)
    server.shows(SOON, 'connections_closed_total{reason="handshake_failed"}', 1)
    server.logs(SOON, "WARN", "certificate expired", "peer=127.0.0.1")
    server.audits(SOON, "disconnected", reason="handshake_failed")
    assert server.request("GET", "/readyz")[0] == 200
    assert server.dial("pump", tls=trust(authority, authority.issue("renewed")))[1] == 0


def test_a_flapping_client(drill):
    server = drill()
    for _ in range(5):
        server.disturb(server.peer("pump", session_expiry=60, clean_start=False).cut)
    server.shows(SOON, 'connections_closed_total{reason="client_closed"}', 5)
    server.audits(SOON, "disconnected", client="pump", reason="client_closed")
    # Two devices with the same client id take the session from each other.
    for _ in range(5):
        former = server.peer("pump")
        latter = server.peer("pump")
        assert former.ended() == TAKEN_OVER
        server.disturb(latter.disconnect)
    server.shows(SOON, 'connections_closed_total{reason="taken_over"}', 5)
    server.logs(SOON, 'reason="taken_over"', "by_peer=127.0.0.1")
    server.audits(SOON, "disconnected", client="pump", reason="taken_over")
    server.shows(SOON, "connections_opened_total", 15)
    assert server.request("GET", "/readyz")[0] == 200


def test_guessed_passwords(drill, users):
    server = drill(users_file=users)

    def guess(user):
        with pytest.raises(Refused) as refused:
            server.peer(f"{user}'s", user=user, password="wrong")
        return refused.value.code

    with ThreadPoolExecutor(50) as threads:
        of_one_user = server.disturb(threads.map, guess, ["ann"] * 25)
        of_many_users = threads.map(guess, [f"user{number}" for number in range(25)])
        server.logs(SOON, "a login was refused", 'cause="login"', 'user="ann"', "peer=127.0.0.1")
        server.within(SOON, "another user is served", lambda: set_key(server.store("bob", **login("bob")), "k") == OK)
        server.within(SOON, "more than 20 logins are rejected", lambda: server.metric("statestored_logins_refused_total") > 20)
        server.refuses(SOON, "login", user="ann", peer="127.0.0.1")
        server.audits(SOON, "refused", user="ann", cause="login")
        assert set(of_many_users) == {BAD_USER}
        # Only few guesses of a user are checked, one after another.
        assert set(of_one_user) == {BAD_USER, RATE_EXCEEDED}
    assert server.request("GET", "/readyz")[0] == 200


def test_a_flood_of_one_user(drill, users):
    server = drill(users_file=users, limit_user=["ann requests=50 connections=2"])
    flooding, store = server.store("flooding", **login("ann")), server.store("bob", **login("bob"))
    for number in range(1_000):
        server.disturb(send, flooding, f"k{number}", "v")
    server.within(SOON, "reading pauses", lambda: server.metric("statestored_pauses_total") > 0)
    server.within(SOON, "another user is served", lambda: set_key(store, "k") == OK)
    server.within(SOON, "its connection is the busiest", lambda: server.api("connections?sort=rate")["items"][0]["client"] == "flooding")
    server.disturb(server.peer, "second", **login("ann"))
    for number in range(3):
        with pytest.raises(Refused) as refused:
            server.peer(f"more{number}", **login("ann"))
        assert refused.value.code == QUOTA_EXCEEDED
    server.refuses(SOON, "quota", user="ann")
