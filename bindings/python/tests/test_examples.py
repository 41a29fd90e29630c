"""Each example prints the output that its comment describes, survives failures, and ends at Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from conftest import HANG_TIMEOUT

EXAMPLES = Path(__file__).parents[1] / "examples"


class Example:
    """An example that runs in a process of its own."""

    def __init__(self, url, name, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", EXAMPLES / f"{name}.py", *arguments],
            env={**os.environ, "STATESTORE_URL": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A program in the background of a shell ignores Ctrl-C, and so do its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.watchdog = threading.Timer(2 * HANG_TIMEOUT, self.process.kill)
        self.watchdog.start()

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self):
        """Waits for the end of the example: its exit code, and the rest of its output."""
        printed, complained = self.process.communicate()
        self.watchdog.cancel()
        return self.process.returncode, printed, complained

    def kill(self):
        self.process.kill()
        self.end()


@pytest.fixture
def start(statestore_server):
    running = []

    def start(name, *arguments):
        running.append(Example(statestore_server.url, name, *arguments))
        return running[-1]

    yield start
    for example in running:
        if example.process.returncode is None:
            example.kill()


def test_each_example_is_tested():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    sessions_and_tasks = {"flask_sessions", "shift_report", "single_task"}
    assert names == {"active_standby", "cache", "line_settings", "machine_lock", "presence", *sessions_and_tasks}


def test_the_cache_computes_once(start, statestore_client):
    plates = "press-1: Contoso 400\n" * 3
    assert start("cache").end() == (0, f"reading the plate of press-1\n{plates}", "")
    assert start("cache").end() == (0, plates, "")
    assert 0 < statestore_client.get("cache/plate/press-1", remaining=True).expires_in <= 60


def test_the_cache_computes_what_the_store_rejects(start):
    machine = "x" * 70_000  # longer than a key can be
    code, printed, complained = start("cache", machine).end()
    assert code == 0 and printed == f"reading the plate of {machine}\n{machine}: Contoso 400\n" * 3
    assert complained.count("the cache was not read") == complained.count("the cache was not written") == 3


def test_the_settings_of_a_line_are_followed(start, statestore_client):
    statestore_client.set("line-1/settings/speed", "90")
    line = start("line_settings")
    assert line.line() == "the line runs with pressure 5, speed 90"
    statestore_client.set("line-1/settings/speed", "fast")
    assert line.process.stderr.readline() == 'line-1/settings/speed is "fast", which is no number\n'
    statestore_client.set("line-1/settings/colour", "red")
    assert start("line_settings", "pressure", "7").end() == (0, "", "")
    assert line.line() == "the line runs with pressure 7, speed 90"
    statestore_client.delete("line-1/settings/speed")
    assert line.line() == "the line runs with pressure 7, speed 60"
    assert line.interrupt() == (0, "", "")


def test_one_program_moves_the_machine_at_a_time(start, statestore_client):
    first = start("machine_lock", "1000000")
    assert first.line() == "waiting for the press"
    stroke, token = first.line().split(" with the token ")
    assert stroke == "stroke 1"
    second, third = start("machine_lock", "1"), start("machine_lock")
    assert second.line() == third.line() == "waiting for the press"
    assert third.interrupt() == (0, "", "")
    assert first.line() == f"stroke 2 with the token {token}"
    code, printed, complained = first.interrupt()
    assert code == 0 and printed.endswith("the press stands still\n") and complained == ""
    code, printed, complained = second.end()
    assert (code, complained) == (0, "")
    stroke, still = printed.splitlines()
    assert stroke.startswith("stroke 1 with the token ") and still == "the press stands still"
    assert stroke.removeprefix("stroke 1 with the token ") > token
    assert statestore_client.get("press-1/strokes").value == b"1"


def test_a_lost_lock_stops_the_machine(start, statestore_client):
    example = start("machine_lock", "1000000")
    assert example.line() == "waiting for the press"
    assert example.line().startswith("stroke 1 ")
    statestore_client.set("press-1/owner", "other")
    code, printed, complained = example.end()
    assert code == 1 and printed.endswith("the press stands still\n")
    assert complained.startswith("LockLost: ")


def test_a_standby_takes_over(start, statestore_client):
    first = start("active_standby", "gateway-a")
    assert [first.line(), first.line()] == ["gateway-a stands by", "gateway-a is active"]
    second, third = start("active_standby", "gateway-b", "2"), start("active_standby", "gateway-c")
    assert [second.line(), third.line()] == ["gateway-b stands by", "gateway-c stands by"]
    assert third.interrupt() == (0, "", "")
    assert statestore_client.election("line-1/active").leader().value == b"gateway-a"
    assert first.interrupt() == (0, "", "")
    assert second.end() == (0, "gateway-b is active\n", "")
    assert statestore_client.get("line-1/plan").value == b"round 1 of gateway-b"


def test_a_lost_lead_makes_a_standby(start, statestore_client):
    example = start("active_standby", "gateway-a")
    assert [example.line(), example.line()] == ["gateway-a stands by", "gateway-a is active"]
    statestore_client.set("line-1/active", "other")
    assert example.line() == "gateway-a stands by"
    statestore_client.delete("line-1/active")
    assert example.line() == "gateway-a is active"
    code, _, complained = example.interrupt()
    assert code == 0 and complained.startswith("gateway-a is not active: ")


def test_gateways_are_present_while_they_run(start):
    early = start("presence")
    assert early.line() == "gateways present: 0"
    first = start("presence", "gateway-a")
    one = f"gateway-a is present: process {first.process.pid}"
    assert early.line() == one
    second = start("presence", "gateway-b")
    two = f"gateway-b is present: process {second.process.pid}"
    assert early.line() == two
    late = start("presence")
    assert [late.line() for _ in range(3)] == [one, two, "gateways present: 2"]
    # Renewals print nothing.
    assert [first.line() for _ in range(3)] == ["gateway-a is announced"] * 3
    # The key of a gateway that ends disappears at once; that of a gateway that dies expires.
    assert first.interrupt()[0] == 0
    second.kill()
    for watcher in (early, late):
        assert [watcher.line(), watcher.line()] == ["gateway-a is gone", "gateway-b is gone"]
        assert watcher.interrupt() == (0, "", "")


def test_a_gateway_survives_a_frozen_server(start, statestore_server):
    example = start("presence", "gateway-a")
    assert example.line() == "gateway-a is announced"
    os.kill(statestore_server.pid, signal.SIGSTOP)
    try:
        assert example.process.stderr.readline().startswith("gateway-a was not announced: ")
    finally:
        os.kill(statestore_server.pid, signal.SIGCONT)
    assert example.line() == "gateway-a is announced"
    assert example.interrupt()[0] == 0


def test_a_task_runs_in_one_worker_at_a_time(start):
    first = start("single_task", "1000000")
    assert first.line() == "building the report of line-1"
    assert start("single_task").end() == (0, "another worker builds the report\n", "")
    assert first.interrupt() == (0, "", "")
    built = "building the report of line-1\nthe report of line-1 is built\n"
    assert start("single_task").end() == (0, built, "")


def test_a_worker_that_dies_leaves_its_task_to_another_one(start, statestore_client):
    first = start("single_task", "1000000")
    assert first.line() == "building the report of line-1"
    first.kill()
    with statestore_client.lock("report/owner", wait=HANG_TIMEOUT):
        assert start("single_task").end()[:2] == (0, "another worker builds the report\n")
    assert start("single_task").line() == "building the report of line-1"


class Browser:
    """Keeps the cookie of a web application."""

    def __init__(self):
        self.cookie = ""

    def open(self, example, path, method="GET"):
        request = Request(example.site + path, method=method, headers={"Cookie": self.cookie})
        with urlopen(request, timeout=HANG_TIMEOUT) as response:
            for name, morsel in SimpleCookie(response.headers.get("Set-Cookie", "")).items():
                self.cookie = f"{name}={morsel.value}"
                assert morsel["httponly"] or not morsel.value
            return response.read().decode()


def test_processes_share_the_sessions_of_a_web_application(start, statestore_client):
    servers = [start("flask_sessions", "0") for _ in range(2)]
    for server in servers:
        listening, _, server.site = server.line().rpartition(" ")
        assert listening == "listening on"
    one, other = Browser(), Browser()
    assert [one.open(server, "/") for server in (*servers, *servers)] == [f"visit {count}\n" for count in (1, 2, 3, 4)]
    assert other.open(servers[0], "/visits") == "0 visits\n" and other.cookie == ""
    assert other.open(servers[0], "/") == "visit 1\n"
    assert one.open(servers[1], "/visits") == "4 visits\n"
    keys = set(statestore_client.scan("session/*"))
    assert len(keys) == 2
    assert all(0 < statestore_client.ttl(key) <= 1800 for key in keys)
    # The session of a key that expires soon is prolonged by a request that changes nothing.
    key = b"session/" + one.cookie.partition("=")[2].encode()
    assert statestore_client.touch(key, 60)
    assert one.open(servers[0], "/visits") == "4 visits\n"
    assert statestore_client.ttl(key) > 60
    assert one.open(servers[0], "/logout", "POST") == "bye\n"
    assert set(statestore_client.scan("session/*")) == keys - {key}
    # An id that the store does not know is not taken over.
    forged = "session=" + "x" * 43
    other.cookie = forged
    assert other.open(servers[0], "/") == "visit 1\n" and other.cookie != forged
    for server in servers:
        assert server.interrupt()[0] == 0


def test_the_report_of_a_shift(start, statestore_client):
    assert start("shift_report").end() == (0, "", "")
    for station, good, rejected in (("press-1", "90", "10"), ("drill-1", "0", "0"), ("saw-1", "98", "2")):
        assert start("shift_report", station, good, rejected).end() == (0, "", "")
    statestore_client.set("line-1/shift/odd", '{"good": "many"}')
    code, printed, complained = start("shift_report").end()
    assert code == 0 and printed.splitlines() == [
        "drill-1            0       0    0.0%",
        "press-1           90      10   10.0%",
        "saw-1             98       2    2.0%",
        "median of the reject rates: 2.0%",
    ]
    assert complained == 'line-1/shift/odd is left out: {"good": "many"} is no count\n'
    assert start("shift_report", "press-1", "-1", "0").end()[0] == 1
