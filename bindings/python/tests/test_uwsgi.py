"""An application under uWSGI with two workers. Skipped where uWSGI is not installed (`pip install pyuwsgi`)."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

HANG_TIMEOUT = 60

uwsgi = shutil.which("uwsgi", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
pytestmark = pytest.mark.skipif(uwsgi is None, reason="uWSGI is not installed")

APPLICATION = """
import os
import statestore

url = os.environ["STATESTORE_URL"]
connected = {}


def client():
    if os.getpid() not in connected:
        connected[os.getpid()] = statestore.connect(url)
    return connected[os.getpid()]


if os.environ["WHEN"] == "import":
    client()


def application(environ, start_response):
    client().set("key", "value")
    value = client().get("key").value
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [value]
"""


class Uwsgi:
    """A running uWSGI, whose output is read as it comes."""

    def __init__(self, folder, environment, *options):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:{}/".format(self.listener.getsockname()[1])
        os.set_inheritable(self.listener.fileno(), True)
        arguments = ["--http-socket", f"fd://{self.listener.fileno()}", "--master", "--processes", "2", "--die-on-term"]
        self.process = subprocess.Popen(
            [uwsgi, *arguments, "--need-app", "--chdir", str(folder), "--module", "application", *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[self.listener.fileno()],
            text=True,
        )
        self.lines = []
        self.workers = threading.Semaphore(0)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("WSGI app 0") or "spawned uWSGI worker" in line:
                self.workers.release()

    def wait_for(self, lines):
        for _ in range(lines):
            assert self.workers.acquire(timeout=HANG_TIMEOUT), self.lines

    def answers(self):
        return [urllib.request.urlopen(self.url, timeout=HANG_TIMEOUT).read() for _ in range(6)]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(HANG_TIMEOUT)
        finally:
            self.process.kill()
            self.reader.join()
            self.listener.close()


@pytest.mark.parametrize("when", ["import", "request"])
@pytest.mark.parametrize("options", [(), ("--lazy-apps",), ("--enable-threads",), ("--lazy-apps", "--enable-threads", "--threads", "2")], ids=" ".join)
def test_workers_answer_before_and_after_a_reload_and_end_quietly(options, when, statestore_server, tmp_path):
    tmp_path.joinpath("application.py").write_text(APPLICATION)
    path = os.pathsep.join([str(Path(sys.modules["statestore"].__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "STATESTORE_URL": statestore_server.url, "WHEN": when, "PYTHONPATH": path}
    server = Uwsgi(tmp_path, environment, *options)
    # Without --lazy-apps, one application is loaded before two workers begin; with it, each worker loads its own.
    lines = 4 if "--lazy-apps" in options else 3
    try:
        server.wait_for(lines)
        assert server.answers() == [b"value"] * 6
        server.process.send_signal(signal.SIGHUP)
        server.wait_for(lines)
        assert server.answers() == [b"value"] * 6
    finally:
        status = server.end()
    output = "".join(server.lines)
    assert status == 0, output
    for word in ("Traceback", "Exception ignored", "PanicException", "panicked", "Warning"):
        assert word not in output, output
