"""mosquitto_pub, mosquitto_sub and mosquitto_rr, with MQTT 5."""

import re
import signal
import subprocess
import threading

import pytest

from server import HANG_TIMEOUT
from store import REQUEST, array, response_topic, timestamp


@pytest.fixture
def mosquitto(server):
    """Runs one of the commands to its end."""

    def run(command, *options, **how):
        return subprocess.run(
            [f"mosquitto_{command}", "-V", "5", "-p", str(server.port), *options],
            capture_output=True,
            timeout=HANG_TIMEOUT,
            **how,
        )

    return run


class Subscriber:
    """A running mosquitto_sub."""

    def __init__(self, server, *options):
        self.process = subprocess.Popen(
            # Line by line, since its log says when it is ready.
            ["stdbuf", "-oL", "mosquitto_sub", "-V", "5", "-p", str(server.port), "-d", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def ready(self):
        """Waits for its SUBACK."""
        # Turns a subscription that never comes into the end of the output.
        guard = threading.Timer(HANG_TIMEOUT, self.process.kill)
        guard.start()
        assert any(line.startswith(b"Subscribed") for line in self.process.stdout), "mosquitto_sub did not subscribe"
        guard.cancel()

    def output(self):
        """What it prints until it ends, without its log."""
        printed, _ = self.process.communicate(timeout=HANG_TIMEOUT)
        log = re.compile(rb"^(Client .* (sending|received)|Subscribed|Received|Connection)")
        return [line for line in printed.splitlines() if not log.match(line)]


@pytest.fixture
def subscribe(server):
    """Starts mosquitto_sub."""
    running = []

    def subscribe(*options):
        running.append(Subscriber(server, *options))
        running[-1].ready()
        return running[-1]

    yield subscribe
    for subscriber in running:
        subscriber.process.kill()
        subscriber.process.wait()
        subscriber.process.stdout.close()


@pytest.mark.parametrize("qos", ["0", "1"])
def test_publish_and_subscribe(mosquitto, subscribe, qos):
    subscriber = subscribe("-t", "rooms/+/temperature", "-q", qos, "-C", "2", "-v")
    for topic, payload in [("rooms/1/humidity", "9"), ("rooms/1/temperature", "20"), ("rooms/2/temperature", "21")]:
        assert mosquitto("pub", "-t", topic, "-m", payload, "-q", qos).returncode == 0
    assert subscriber.output() == [b"rooms/1/temperature 20", b"rooms/2/temperature 21"]
    assert subscriber.process.returncode == 0


def test_a_kept_session_collects_messages(mosquitto, subscribe):
    session = ("-i", "collector", "-c", "-x", "60", "-t", "news", "-q", "1")
    subscribe(*session).process.send_signal(signal.SIGKILL)
    for number in ["1", "2", "3"]:
        assert mosquitto("pub", "-t", "news", "-m", number, "-q", "1").returncode == 0
    assert mosquitto("sub", *session, "-C", "3").stdout.split() == [b"1", b"2", b"3"]


def test_a_killed_client_leaves_its_will(subscribe):
    watcher = subscribe("-t", "wills", "-C", "1", "-q", "1")
    dying = subscribe("-t", "anything", "--will-topic", "wills", "--will-payload", "gone", "--will-qos", "1")
    dying.process.send_signal(signal.SIGKILL)
    assert watcher.output() == [b"gone"]


def test_many_messages_through_one_connection(mosquitto, subscribe):
    lines = b"".join(b"%d\n" % number for number in range(5000))
    subscriber = subscribe("-t", "many", "-q", "1", "-C", "5000")
    received = []
    reader = threading.Thread(target=lambda: received.extend(subscriber.output()))
    reader.start()
    assert mosquitto("pub", "-t", "many", "-q", "1", "-l", input=lines).returncode == 0
    reader.join(HANG_TIMEOUT)
    assert received == lines.split()


def test_qos_2_is_seen_to_be_unavailable(mosquitto):
    assert b"QoS not supported" in mosquitto("pub", "-t", "topic", "-m", "payload", "-q", "2").stderr


def test_mqtt_3_is_refused(server):
    ended = subprocess.run(
        ["mosquitto_pub", "-V", "311", "-p", str(server.port), "-t", "topic", "-m", "payload"],
        capture_output=True,
        timeout=HANG_TIMEOUT,
    )
    assert ended.returncode != 0
    assert b"version" in ended.stderr.lower()


def request(mosquitto, *arguments):
    """A request to the store by mosquitto_rr; the payload of the response."""
    ended = mosquitto(
        "rr", "-i", "requester", "-q", "1", "-t", REQUEST, "-e", response_topic("requester"), "-N",
        "-W", str(HANG_TIMEOUT),
        "-D", "publish", "correlation-data", "sixteen bytes id",
        "-D", "publish", "user-property", "__ts", timestamp(),
        "-m", array(*arguments).decode(),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_store_answers_mosquitto_rr(mosquitto):
    assert request(mosquitto, "SET", "key", "value") == b"+OK\r\n"
    assert request(mosquitto, "GET", "key") == b"$5\r\nvalue\r\n"
    assert request(mosquitto, "DEL", "key") == b":1\r\n"
    assert request(mosquitto, "GET", "key") == b"$-1\r\n"
