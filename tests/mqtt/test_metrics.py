"""Every family of metrics has the value that follows from what clients did."""

import contextlib
import os
import re
import signal
import socket
import ssl
import time
from pathlib import Path

import pytest

import broker
import engine
import wire
from authority import Authority
from disk import Disk, library
from optioned import Served, trust, until
from peer import Peer, Refused
from server import lacks
from store import REQUEST, Store, array, notification_topic, timestamp

POLICY = """
rules:
- principals: {usernames: [ann, bob]}
  brokerResources:
  - {method: Connect}
  - {method: Publish, topics: [open]}
  - {method: Subscribe, topics: [open, barrier/#]}
  stateStoreResources: [{method: ReadWrite, keys: ["*"]}]
"""
MAX_SESSIONS = 3
# Enough bytes for a merge.
LARGE, TIMES = 8_000_000, 10
# Connections to the HTTP port; it serves 64.
CROWD = 80
PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
DAY = 24 * 3600
TOKEN = "0123456789abcdef0123456789abcdef"


def families(text):
    """The families of an exposition, each with its samples by labels."""
    found = {name: {} for name in re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)}
    for name, labels, value in re.findall(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE):
        family = next(it for it in (name, re.sub("_(bucket|sum|count)$", "", name)) if it in found)
        found[family][f"{name.removeprefix(family)}{{{labels}}}"] = float(value)
    return found


class Scenario:
    """A durable server and the work of its clients, whose metrics are known."""

    def __init__(self, folder):
        self.folder = folder
        users, policy, token = folder / "users", folder / "policy.yaml", folder / "token"
        users.write_text("ann:secret\nbob:secret\n")
        token.write_text(TOKEN)
        policy.write_text(POLICY)
        options = {
            "listen": ["tcp://127.0.0.1:0"], "http": "http://127.0.0.1:0", "data-dir": folder / "data", "metrics-names": "both",
            "users-file": users, "policy-file": policy, "max-sessions": MAX_SESSIONS, "limit-user": ["bob requests=2", "ann sessions=4 watches=10"],
            "limit-prefix": ["large keys=4"], "http-token-file": token,
        }  # fmt: skip
        self.began = time.time()
        self.server = Served("flag", options, folder)

    def work(self):
        server, ann = self.server, {"user": "ann", "password": "secret"}
        assert server.request("GET", "/healthz")[0] == 200
        with pytest.raises(Refused):
            server.peer("ann", user="ann", password="wrong")
        server.peer("away", session_expiry=60, **ann).disconnect()
        broken, _ = server.dial("broken", **ann)
        broken.send(b"\0\0")
        assert broken.is_closed()[0]
        hasty, _ = server.dial("hasty", user="bob", password="secret")
        hasty.send(*(wire.publish("open", b"", number) for number in range(1, 5)))
        assert all(hasty.expect(wire.PUBACK) for _ in range(4))
        hasty.close()
        until("two connections are gone", lambda: server.metric("statestored_connections") == 0)

        store, small = server.store("ann", **ann), server.peer("small", MaximumPacketSize=100, **ann)
        peer = store.peer
        for request in [
            ("SET", "a", "1"), ("SET", "a", "2"), ("SET", "b", "1"), ("GET", "a"), ("GET", "none"), ("DEL", "b"), ("DEL", "b"),
            ("VDEL", "a", "x"), ("KEYNOTIFY", "a"), ("SET", "a", "3"), ("SCAN", "*"), ("TXN", "3", "SET", "c", "v", "2", "DEL", "a"),
            ("MGET", "c", "none"),
        ]:  # fmt: skip
            store.reply(*request)
        assert len(store.notifications()) == 2
        assert store.reply("SET", "short", "1", "PX", "1") == b"+OK\r\n"
        until("a key has expired", lambda: server.metric("statestored_expired_keys_total") == 1)
        assert small.subscribe("open") == peer.subscribe("open") == 1
        assert small.subscribe("closed") == 0x87
        assert peer.publish("open", bytes(200)) == 0
        assert peer.publish("closed") == 0x87
        assert peer.publish(REQUEST, array("GET", "a")) >= 0x80, "it has no response topic"
        for _ in range(TIMES):
            assert store.reply("SET", "large", bytes(LARGE)) == b"+OK\r\n"
        until("data files are merged", lambda: server.metric('statestored_merges_total{result="ok"}') > 0)
        until("no merge runs", lambda: server.metric("statestored_merging") == 0)
        # The session of the client that is away makes room.
        server.peer("third", **ann)

    def crowd(self):
        """Opens more connections to the HTTP port than it serves at a time."""
        host, port = self.server.http.rsplit(":", 1)
        crowd = [socket.create_connection((host, int(port))) for _ in range(CROWD)]
        until("some are refused", lambda: self.server.metric("statestored_http_connections_refused_total") > 0)
        for one in crowd:
            one.close()

    def end(self):
        self.server.close()


@pytest.fixture
def scenario(tmp_path):
    scenario = Scenario(tmp_path)
    yield scenario
    scenario.end()


def size(folder, begin):
    """The bytes of the files whose names begin so. One that a merge removes meanwhile counts as nothing."""
    total = 0
    for file in folder.iterdir():
        if file.name.startswith(begin):
            with contextlib.suppress(FileNotFoundError):
                total += file.stat().st_size
    return total


def of_process(pid):
    """The metrics of a process, as /proc has them."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/limits") as file:
        [most] = re.findall(r"^Max open files +(\d+)", file.read(), re.MULTILINE)
    return {
        "cpu": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        "resident": int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        "virtual": int(fields[20]),
        "open": len(os.listdir(f"/proc/{pid}/fd")),
        "max": int(most),
    }


def test_every_family_reports_client_activity(scenario):
    scenario.work()
    scenario.crowd()
    process, data = of_process(scenario.server.process.pid), scenario.folder / "data"
    until("the connections are closed", lambda: of_process(scenario.server.process.pid)["open"] < 60)
    # A merge removes the logs that it has read last.
    until("merged logs are gone", lambda: scenario.server.metric("statestored_log_bytes") == size(data, "log-"))
    process = of_process(scenario.server.process.pid)
    _, text = scenario.server.request("GET", "/metrics")
    assert families(text)["statestored_user_quota_used_ratio"] == {}, "names of users are shown without the token"
    _, text = scenario.server.request("GET", "/metrics", {"Authorization": f"Bearer {TOKEN}"})
    found = families(text)
    disk = os.statvfs(data)

    def sums(family):
        """The samples by labels, without those that are zero and without buckets."""
        return {name: value for name, value in found[family].items() if value and not name.startswith("_bucket")}

    def one(family):
        """The value of the only sample."""
        [value] = found[family].values()
        return value

    def verb(**counts):
        return {f'{{verb="{verb}",result="{result}"}}': count for verb, results in counts.items() for result, count in results.items()}

    sets = 5 + TIMES
    requests = {"set": sets, "get": 2, "del": 2, "vdel": 1, "keynotify": 1, "scan": 1, "txn": 1, "mget": 1}
    durations, commits, syncs = found["statestored_request_duration_seconds"], sums("statestored_commit_writes"), sums("statestored_sync_duration_seconds")
    deployed = '{namespace="default",backend_chain="0"}'
    # Changes that were written: a DEL of an absent key is none, a transaction has two, and a key expired.
    writes = sets + 1 + 2 + 1
    table = {
        "statestored_build_info": lambda: re.fullmatch(r'{version="\d+\.\d+\.\d+"}', *sums("statestored_build_info")),
        "statestored_serving": 1,
        "statestored_requests_total": verb(
            set={"ok": sets}, get={"ok": 1, "absent": 1}, vdel={"not_applied": 1}, keynotify={"ok": 1}, scan={"ok": 1}, txn={"ok": 1}, mget={"ok": 1},
            **{"del": {"ok": 1, "absent": 1}},
        ),
        "statestored_request_duration_seconds": lambda: all(
            durations[f'_count{{verb="{verb}"}}'] == durations[f'_bucket{{verb="{verb}",le="+Inf"}}'] == count
            and 0 < durations[f'_sum{{verb="{verb}"}}'] < count * 60
            for verb, count in requests.items()
        ),
        "statestored_insertions_total": 5,
        "statestored_transaction_operations_total": {'{verb="set"}': 1, '{verb="del"}': 1},
        "statestored_requests_unanswerable_total": 1,
        "statestored_responses_total": sum(requests.values()),
        "statestored_notifications_total": 2,
        "statestored_messages_total": 5,
        "statestored_messages_refused_total": 1,
        "statestored_subscriptions_refused_total": 1,
        "statestored_connections_opened_total": 7,
        "statestored_connections_failed_total": 1,
        "statestored_connections_closed_total": {
            '{reason="connect_refused"}': 1, '{reason="client_disconnect"}': 1, '{reason="protocol_error"}': 1, '{reason="client_closed"}': 1,
        },
        "statestored_clock_skewed_timestamps_total": {},
        "statestored_clock_suspect": {},
        "statestored_clock_skew_seconds": lambda: abs(one("statestored_clock_skew_seconds")) < 60,
        # The clock of the machine may be set while the test runs.
        "statestored_clock_steps_total": lambda: one("statestored_clock_steps_total") >= 0,
        "statestored_version_ahead_seconds": lambda: 0 <= one("statestored_version_ahead_seconds") < 60,
        "statestored_expired_keys_total": 1,
        "statestored_limit_bytes": lambda: (
            found["statestored_limit_bytes"].keys() == {'{limit="entries"}', '{limit="held"}'} and min(found["statestored_limit_bytes"].values()) > LARGE
        ),
        "statestored_limit_items": lambda: found["statestored_limit_items"]['{limit="sessions"}'] == MAX_SESSIONS,
        "statestored_limit_used_ratio": lambda: (
            found["statestored_limit_used_ratio"]['{limit="sessions"}'] == 1 and 0 < found["statestored_limit_used_ratio"]['{limit="entries"}'] < 1
        ),
        "statestored_prefix_quota_used_ratio": {'{prefix="large",quota="keys"}': 1 / 4},
        "statestored_user_quota_used_ratio": {'{user="ann",quota="sessions"}': 3 / 4, '{user="ann",quota="watches"}': 1 / 10},
        "statestored_quotas_omitted": {},
        "statestored_certificate_expiry_timestamp_seconds": {},
        "statestored_tls_handshakes_failed_total": {},
        "statestored_config_last_reload_successful": 1,
        "statestored_config_last_reload_success_timestamp_seconds": lambda: (
            scenario.began - 2 < one("statestored_config_last_reload_success_timestamp_seconds") < time.time() + 2
        ),
        "statestored_previous_run_crashed": 0,
        "statestored_logins_refused_total": 1,
        "statestored_sessions_evicted_total": 1,
        "statestored_pauses_total": lambda: 1 <= one("statestored_pauses_total") <= 4,
        "statestored_deliveries_dropped_total": {'{reason="too_large"}': 1},
        "statestored_refusals_total": {'{cause="login"}': 1, '{cause="authorization"}': 2, '{cause="protocol"}': 1},
        "statestored_keys": 2,
        "statestored_entry_bytes": lambda: LARGE < one("statestored_entry_bytes") < LARGE + 1_000,
        "statestored_held_bytes": lambda: 3_000 < one("statestored_held_bytes") < 1_000_000,
        # The passwords of the file are no hashes.
        "statestored_hashing_bytes": 0,
        "statestored_connections": 3,
        "statestored_sessions": MAX_SESSIONS,
        "statestored_watches": 1,
        "statestored_requests_under_way": 0,
        "statestored_read_only": 0,
        "statestored_memory_short": 0,
        "statestored_commit_writes": lambda: commits["_sum{}"] == writes and writes / 4 < commits["_count{}"] < writes,
        "statestored_sync_duration_seconds": lambda: syncs["_count{}"] == commits["_count{}"] and 0 < syncs["_sum{}"] < 60,
        "statestored_written_bytes_total": lambda: LARGE * TIMES < one("statestored_written_bytes_total") < LARGE * TIMES + 10_000,
        "statestored_waiting_bytes": 0,
        "statestored_log_bytes": size(data, "log-"),
        "statestored_base_bytes": size(data, "base-"),
        "statestored_merging": 0,
        "statestored_merges_total": lambda: sums("statestored_merges_total").keys() == {'{result="ok"}'},
        "statestored_merge_seconds": lambda: 0 < one("statestored_merge_seconds") < 60,
        "statestored_disk_size_bytes": disk.f_blocks * disk.f_frsize,
        # Other programs write as well.
        "statestored_disk_free_bytes": lambda: abs(one("statestored_disk_free_bytes") - disk.f_bavail * disk.f_frsize) < disk.f_blocks * disk.f_frsize / 10,
        "statestored_http_requests_total": lambda: sums("statestored_http_requests_total")['{path="/healthz",status="200"}'] == 1,
        "statestored_http_connections_refused_total": lambda: 1 <= one("statestored_http_connections_refused_total") <= CROWD,
        "aio_broker_state_store_insertions": {deployed: 5},
        "aio_broker_state_store_modifications": {deployed: sets + 1 - 5},
        "aio_broker_state_store_deletions": {deployed: 4},
        "aio_broker_state_store_retrievals": {deployed: 2},
        "aio_broker_state_store_keynotify_requests": {deployed: 1},
        "aio_broker_state_store_notifications_sent": {deployed: 2},
        "process_cpu_seconds_total": lambda: process["cpu"] <= one("process_cpu_seconds_total") < process["cpu"] + 60,
        "process_resident_memory_bytes": lambda: process["resident"] / 2 < one("process_resident_memory_bytes") < process["resident"] * 2,
        "process_virtual_memory_bytes": lambda: process["virtual"] / 2 < one("process_virtual_memory_bytes") < process["virtual"] * 2,
        "process_open_fds": lambda: abs(one("process_open_fds") - process["open"]) <= 5,
        "process_max_fds": process["max"],
        # The time of the boot is known by the second.
        "process_start_time_seconds": lambda: scenario.began - 2 < one("process_start_time_seconds") < time.time() + 2,
    }
    assert found.keys() == table.keys()
    for family, expected in table.items():
        if callable(expected):
            assert expected(), (family, found[family])
        elif isinstance(expected, dict):
            assert sums(family) == expected, family
        else:
            assert one(family) == expected, family


def test_a_full_disk_and_a_hanging_disk_are_shown(tmp_path):
    disk = Disk(library(tmp_path), tmp_path)
    options = {"listen": ["tcp://127.0.0.1:0"], "http": "http://127.0.0.1:0", "data-dir": tmp_path / "data"}
    server = Served("flag", options, tmp_path, disk.environment)
    try:
        store = server.store()

        def send(key, value):
            properties = {"ResponseTopic": store.topic, "CorrelationData": key.encode(), "UserProperty": [("__ts", timestamp())]}
            store.peer.send(REQUEST, array("SET", key, value), **properties)

        def shows(name, value):
            until(f"{name} is {value}", lambda: server.metric(name) == value)

        disk.set(capacity=40_000_000)
        for number in range(TIMES):
            send(f"k{number}", bytes(LARGE))
        shows("statestored_read_only", 1)
        disk.set()
        shows("statestored_read_only", 0)
        disk.set(sync_delay_ms=86_400_000)
        for number in range(2):
            send(f"small{number}", bytes(1_000))
        until("writes wait", lambda: 1_000 < server.metric("statestored_waiting_bytes") < 4_000)
    finally:
        server.close()


def test_certificates_reloads_and_crashes_are_shown(tmp_path):
    authority, users = Authority(tmp_path), tmp_path / "users"
    users.write_text("ann:secret\n")
    certificate, key = authority.issue("server")
    options = {
        "listen": ["tcp://127.0.0.1:0", "tls://127.0.0.1:0"], "http": "http://127.0.0.1:0", "data-dir": tmp_path / "data", "users-file": users,
        "tls-cert": certificate, "tls-key": key,
    }  # fmt: skip
    server = Served("flag", options, tmp_path)

    def shows(name, value):
        until(f"{name} is {value}", lambda: server.metric(f"statestored_{name}") == value)

    def reload(content):
        users.write_text(content)
        server.process.send_signal(signal.SIGHUP)

    try:
        # The authority issues certificates for two days.
        expiry = server.metric(f'statestored_certificate_expiry_timestamp_seconds{{listener="{server.addresses[1]}"}}')
        assert abs(expiry - time.time() - 2 * DAY) < DAY / 2
        status, text = server.request("GET", "/readyz")
        assert status == 200 and text.startswith("ready\ncertificate_expires: ")
        assert server.dial("ann", place=1, tls=trust(authority), user="ann", password="secret")[1] == 0
        shows('tls_handshakes_failed_total{reason="server_certificate_unknown"}', 0)
        assert server.dial("ann", place=1, tls=ssl.create_default_context())[1] is None
        shows('tls_handshakes_failed_total{reason="server_certificate_unknown"}', 1)
        started = server.metric("statestored_config_last_reload_success_timestamp_seconds")
        reload("no colon\n")
        shows("config_last_reload_successful", 0)
        assert server.metric("statestored_config_last_reload_success_timestamp_seconds") == started
        until("a second has passed", lambda: time.time() > started + 1)
        reload("ann:secret\n")
        shows("config_last_reload_successful", 1)
        assert server.metric("statestored_config_last_reload_success_timestamp_seconds") > started
        assert server.store("ann", user="ann", password="secret").reply("SET", "k", "v") == b"+OK\r\n"
        shows("previous_run_crashed", 0)
        server.close()
        server = Served("flag", options, tmp_path)
        shows("previous_run_crashed", 1)
        assert "ended without a clean stop" in server.log()
        assert server.end() == 0
        server.close()
        server = Served("flag", options, tmp_path)
        shows("previous_run_crashed", 0)
    finally:
        server.close()


def test_a_broker_and_an_engine_are_shown(tmp_path):
    if lacks("redis"):
        pytest.skip("the server was built without redis")
    redis, mosquitto = engine.Redis(), broker.Mosquitto()
    options = {
        "http": "http://127.0.0.1:0", "storage": redis.storage("store"), "attach": f"mqtt://127.0.0.1:{mosquitto.port}",
        "attach-share": "nodes",
    }  # fmt: skip
    server, peer = Served("flag", options, tmp_path), None

    def shows(**values):
        for name, value in values.items():
            until(f"{name} is {value}", lambda: server.metric(f"statestored_{name}") == value)

    try:
        shows(attached=1, attachments_total=1, engine_watched=1)
        peer = Peer(mosquitto.port, "client")
        store = Store(peer, subscribes=True)
        assert store.reply("SET", "k", "v") == b"+OK\r\n"
        until("a read is confirmed", lambda: store.reply("GET", "k") == b"$1\r\nv\r\n" and server.metric("statestored_engine_confirmed_total") > 0)
        assert store.reply("GET", "k", "EVENTUAL") == b"$1\r\nv\r\n"
        # Without a subscriber of its notifications, the broker refuses them and the watch ends.
        assert store.reply("KEYNOTIFY", "k") == b"+OK\r\n"
        peer.unsubscribe(notification_topic("client", b"") + "+")
        assert store.reply("SET", "k", "w") == b"+OK\r\n"
        shows(watches=0)
        # A watch may report a change, and so end its request, before the engine's answer is counted.
        commits = 'statestored_engine_requests_total{kind="commit",result="done"}'
        until("both changes are counted", lambda: server.metric(commits) >= 2)
        found = {name: samples for name, samples in families(server.request("GET", "/metrics")[1]).items() if re.match("statestored_(attach|engine)", name)}
        for file in ("prometheus/statestored.rules.yml", "grafana/statestored.json"):
            used = set(re.findall(r"\bstatestored_(?:attach|engine)\w*", (PACKAGING / file).read_text()))
            # Only etcd has members to choose from; test_engine_drills.py has the value.
            assert used and used - {"statestored_engine_members_avoided"} <= found.keys(), file
        requests = found.pop("statestored_engine_requests_total")
        assert not any(count for name, count in requests.items() if "failed" in name), requests
        confirmed = found.pop("statestored_engine_confirmed_total")["{}"]
        assert 1 <= confirmed < 1_000
        assert found.pop("statestored_engine_versions_ahead_seconds")["{}"] <= 1
        assert found.pop("statestored_engine_clock_ahead_seconds")["{}"] <= 1
        assert {name.removeprefix("statestored_"): samples["{}"] for name, samples in found.items()} == {
            "attached": 1,
            "attachments_total": 1,
            "attached_unwanted_total": 1,
            "attached_refused_total": 0,
            "attached_unproven_total": 0,
            "attached_lost_probes_total": 0,
            "attached_waiting": 0,
            "engine_requests_under_way": 0,
            "engine_remembered_total": 1,
            "engine_watched": 1,
            "engine_away": 0,
            "engine_reversions_total": 0,
            "engine_clock_refused": 0,
        }
        redis.process.send_signal(signal.SIGSTOP)
        peer.send(REQUEST, array("SET", "k", "x"), ResponseTopic=store.topic, CorrelationData=b"c", UserProperty=[("__ts", timestamp())])
        until("a request is under way", lambda: server.metric("statestored_requests_under_way") == 1)
        assert server.metric("statestored_engine_requests_under_way") >= 1
        shows(engine_away=1, engine_watched=0)
        redis.process.send_signal(signal.SIGCONT)
        shows(engine_away=0, engine_watched=1, requests_under_way=0, engine_requests_under_way=0)
        mosquitto.process.kill()
        shows(attached=0)
    finally:
        mosquitto.kill()
        if peer:
            peer.end()
        server.close()
        redis.end()
