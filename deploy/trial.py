#!/usr/bin/env python3
"""Runs the commands of compose.yaml and the Kubernetes manifests as processes of this machine: `deploy/trial.py FOLDER`.

FOLDER has `statestored` (with the feature etcd) and `statestore`. Free ports of the loopback interface replace the addresses, and folders
below a temporary one those of the containers. An unknown option or a file that is not mounted ends the trial. The script needs etcd, haproxy,
openssl and the packages of requirements.txt.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
PATIENCE = 120
ADDRESS = re.compile(r"(?<=[/,=])([\w.-]+):(\d+)")
# The load balancer's address in compose.yaml.
BALANCER = "172.30.18.2"


class Place:
    """The programs, folder and ports of the processes of one trial."""

    def __init__(self, programs: Path, folder: Path, stack: contextlib.ExitStack):
        self.programs = programs
        self.folder = folder
        self.stack = stack
        self.ports: dict[tuple[str, str], int] = {}

    def port(self, host: str, port: str) -> int:
        """Returns the free port that replaces a port of a host."""
        key = (host.split(".")[0], port)
        if key not in self.ports:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.ports[key] = free.getsockname()[1]
        return self.ports[key]

    def here(self, text: str, host: str, mounts: dict[str, Path]) -> str:
        """Returns a word of a command with the addresses and folders of this machine."""

        def address(found: re.Match) -> str:
            name = host if found[1] == "0.0.0.0" else found[1]
            return f"127.0.0.1:{self.port(name, found[2])}"

        text = ADDRESS.sub(address, text)
        text = text.replace(BALANCER, "127.0.0.2")
        for inside, outside in mounts.items():
            text = re.sub(rf"(?<==){re.escape(inside)}(?=/|$)", str(outside), text)
        return text

    def start(self, host: str, command: list[str], mounts: dict[str, Path], environment: dict[str, str]) -> subprocess.Popen:
        program, *words = (self.here(word, host, mounts) for word in command)
        own = self.programs / Path(program).name
        log = self.stack.enter_context((self.folder / f"{host}.log").open("w"))
        environment = {name: self.here(f"={value}", host, mounts)[1:] for name, value in environment.items()}
        process = subprocess.Popen(
            [str(own) if own.exists() else Path(program).name, *words],
            env=os.environ | environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        self.stack.callback(end, process)
        return process

    def wait(self, what: str, url: str, processes: dict[str, subprocess.Popen]) -> None:
        until = time.monotonic() + PATIENCE
        while not answers(url):
            for host, process in processes.items():
                if process.poll() is not None:
                    raise SystemExit(f"{host} has ended: {(self.folder / f'{host}.log').read_text()[-2000:]}")
            if time.monotonic() > until:
                raise SystemExit(f"{what} does not become ready")
            time.sleep(0.05)

    def statestore(self, url: str, *words: str) -> str:
        """Repeats a command until it succeeds, and returns its output."""
        until = time.monotonic() + PATIENCE
        while True:
            done = subprocess.run(
                [self.programs / "statestore", "--url", url, *words], capture_output=True, text=True, timeout=PATIENCE, check=False
            )
            if done.returncode == 0:
                return done.stdout.strip()
            if time.monotonic() > until:
                raise SystemExit(f"{' '.join(words)}: {done.stderr}")
            time.sleep(0.05)


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def someone(place: Place, folder: Path) -> Path:
    """Creates the user `ann` and a token, and returns the file with her password."""
    password = folder / "password"
    password.write_text("a password of hers\n")
    command = [place.programs / "statestored", "passwd", "--stdin", folder / "users", "ann"]
    subprocess.run(command, input=password.read_text(), text=True, check=True, stdout=subprocess.DEVNULL)
    (folder / "token").write_text("0123456789abcdef0123\n")
    return password


@dataclass
class Cluster:
    """The services of compose.yaml without the load balancer."""

    nodes: list[str]
    processes: dict[str, subprocess.Popen]
    password: Path

    def url(self, place: Place, host: str) -> str:
        return f"mqtt://ann@127.0.0.1:{place.port(host, '1883')}?password_file={self.password}"


def start(place: Place) -> Cluster:
    secrets = place.folder / "secrets"
    secrets.mkdir()
    password = someone(place, secrets)
    services = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]
    cluster = Cluster([host for host in services if host.startswith("node")], {}, password)
    for host, service in services.items():
        if host != "balancer":
            begin(place, cluster, host, service)
    for host in cluster.nodes:
        ready(place, cluster, host)
    return cluster


def begin(place: Place, cluster: Cluster, host: str, service: dict) -> None:
    mounts = {"/run/secrets": cluster.password.parent, "/data": place.folder / host}
    command = [*service.get("entrypoint", []), *service["command"]]
    cluster.processes[host] = place.start(host, command, mounts, service.get("environment", {}))


def ready(place: Place, cluster: Cluster, host: str) -> None:
    place.wait(host, f"http://127.0.0.1:{place.port(host, '9883')}/readyz", cluster.processes)


def compose(place: Place) -> None:
    cluster = start(place)
    nodes, processes = cluster.nodes, cluster.processes
    processes["balancer"] = place.start("balancer", ["haproxy", "-db", "-f", str(balancer(place, nodes))], {}, {})
    url = cluster.url(place, "balancer")
    place.statestore(url, "set", "greeting", "hello")
    # The cluster tolerates the loss of two of three nodes and of one of three members.
    for lost in (nodes[0], "etcd0", nodes[1]):
        end(processes.pop(lost))
        said = place.statestore(url, "get", "greeting")
        if said != "hello":
            raise SystemExit(f"without {lost}: {said}")
    print("compose.yaml: all services start, and two nodes and a member can be lost")


def balancer(place: Place, nodes: list[str]) -> Path:
    text = (HERE / "haproxy.cfg").read_text().replace("bind :1883", f"bind 127.0.0.1:{place.port('balancer', '1883')}")
    # The servers trust only this source address.
    text = text.replace("default-server send-proxy-v2", "default-server source 127.0.0.2 send-proxy-v2")
    # The limit of open files can be low here.
    text = text.replace("maxconn 30000", "maxconn 100")
    for host in nodes:
        ways = f"127.0.0.1:{place.port(host, '1883')} port {place.port(host, '9883')}"
        text = text.replace(f"{host}:1883", ways)
    file = place.folder / "haproxy.cfg"
    file.write_text(text)
    return file


def kubernetes(place: Place) -> None:
    secrets = place.folder / "secrets"
    subprocess.run([HERE / "certificates", secrets], check=True)
    access = secrets / "statestored-access"
    access.mkdir()
    password = someone(place, access)
    processes = {}
    for document in (it for file in ("etcd.yaml", "statestored.yaml") for it in yaml.safe_load_all((HERE / "kubernetes" / file).read_text())):
        if "template" not in document["spec"]:
            continue
        (container,) = document["spec"]["template"]["spec"]["containers"]
        volumes = document["spec"]["template"]["spec"]["volumes"]
        volumes = {it["name"]: it["secret"]["secretName"] for it in volumes if "secret" in it}
        for number in range(document["spec"]["replicas"]):
            host = f"{document['metadata']['name']}-{number}"
            mounts = {
                it["mountPath"]: secrets / volumes[it["name"]] if it["name"] in volumes else place.folder / host
                for it in container["volumeMounts"]
            }
            words = [word.replace("$(POD)", host) for word in [*container["command"], *container["args"]]]
            processes[host] = place.start(host, words, mounts, {})
        ports = {it["name"]: str(it["containerPort"]) for it in container["ports"]}
        probe = container["readinessProbe"]["httpGet"]
        for host in (it for it in processes if it.startswith(document["metadata"]["name"])):
            place.wait(host, f"http://127.0.0.1:{place.port(host, ports[probe['port']])}{probe['path']}", processes)
    for number in range(2):
        where = f"localhost:{place.port(f'statestored-{number}', '8883')}"
        url = f"mqtts://ann@{where}?ca_file={secrets / 'ca.crt'}&password_file={password}"
        if number == 0:
            place.statestore(url, "set", "greeting", "hello")
        elif (said := place.statestore(url, "get", "greeting")) != "hello":
            raise SystemExit(f"another node says: {said}")
    print("kubernetes: all containers start and become ready, over TLS, and share what they have")


@contextlib.contextmanager
def place(programs: Path) -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        yield Place(programs, Path(folder), stack)


def main() -> None:
    for trial in (compose, kubernetes):
        with place(Path(sys.argv[1]).resolve()) as where:
            trial(where)


if __name__ == "__main__":
    main()
