#!/usr/bin/env python3
"""daprd with components, and whatever they need, for as long as somebody needs it.

    DAPRD=… STATESTORED=… STATESTORE_DAPR=… python3 tests/dapr/daprd/sidecar.py COMMAND…

runs a command that finds daprd by DAPR_HTTP_PORT and DAPR_GRPC_PORT, as an application does, with the state store `store`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

# How long anything may take. Only a failing test waits that long.
PATIENCE = 60

def free_ports(count):
    """Not every program prints the port that the system gave it, so these are free ones that may be taken in between."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


class Processes(ExitStack):
    """Programs with a folder of their own, which end in the order opposite to that in which they began."""

    def __init__(self):
        super().__init__()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        # Where daprd looks for components.
        self.sockets = self.folder / "sockets"
        self.sockets.mkdir()

    def start(self, *command, is_ready=None, environment=None):
        """Starts a program that says where it listens, or one that is asked whether it is ready."""
        log = self.enter_context(tempfile.TemporaryFile("w+", dir=self.folder))
        output = log if is_ready else subprocess.PIPE
        process = subprocess.Popen(command, stdout=output, stderr=log, text=True, env={**os.environ, **(environment or {})})
        self.callback(end, process)
        if is_ready is None:
            process.line = process.stdout.readline().strip()
            begun = process.line.startswith("listening on ")
        else:
            begun = until(is_ready, process)
        if not begun:
            log.seek(0)
            raise AssertionError(f"{command[0]} does not begin:\n{log.read()}")
        return process

    def statestored(self, *arguments, listen="tcp://127.0.0.1:0"):
        """Starts the server, and gives its process and port."""
        process = self.start(os.environ["STATESTORED"], "--listen", listen, *arguments)
        return process, process.line.rsplit(":", 1)[1]

    def serve(self, name):
        """Starts the component for Dapr."""
        self.start(os.environ["STATESTORE_DAPR"], "--folder", self.sockets, "--name", name)

    def daprd(self, program, components):
        """Starts daprd with these components."""
        resources = Path(tempfile.mkdtemp(dir=self.folder))
        for component in components:
            # JSON is YAML.
            (resources / f"{component['metadata']['name']}.yaml").write_text(json.dumps(component))
        http, grpc, internal, metrics = free_ports(4)
        api = Api(http, grpc)
        api.process = self.start(
            *[program, "--mode", "standalone", "--app-id", "trial", "--resources-path", resources, "--log-level", "warn"],
            *["--dapr-http-port", str(http), "--dapr-grpc-port", str(grpc), "--dapr-internal-grpc-port", str(internal)],
            *["--dapr-listen-addresses", "127.0.0.1", "--dapr-internal-grpc-listen-address", "127.0.0.1"],
            *["--metrics-listen-address", "127.0.0.1", "--metrics-port", str(metrics)],
            is_ready=api.is_ready,
            environment={"DAPR_COMPONENTS_SOCKETS_FOLDER": str(self.sockets)},
        )
        return api

    def usual(self):
        """daprd with the state store `store`, as the component file of Azure IoT Operations has it."""
        _, port = self.statestored("--storage", "memory")
        self.serve("azure.iotoperations")
        store = component("store", "azure.iotoperations", hostname="127.0.0.1", tcpPort=port, useTls="false", keyPrefix="name")
        return self.daprd(os.environ["DAPRD"], [store])

    def beside(self, stores):
        """daprd with Dapr's own components and ours, one for each store."""
        self.serve("statestore")
        return self.daprd(os.environ["DAPRD_PEERS"], [store.component(name) for name, store in stores.items()])


def component(name, kind, version="v1", **metadata):
    """A state store as daprd reads it."""
    metadata = [{"name": name, "value": str(value)} for name, value in metadata.items()]
    spec = {"type": f"state.{kind}", "version": version, "metadata": metadata}
    return {"apiVersion": "dapr.io/v1alpha1", "kind": "Component", "metadata": {"name": name}, "spec": spec}


def until(is_ready, process):
    """Whether a process gets ready before it ends."""
    end_of_patience = time.monotonic() + PATIENCE
    while not is_ready():
        if time.monotonic() > end_of_patience or process.poll() is not None:
            return False
        time.sleep(0.02)
    return True


def end(process):
    if process.poll() is None:
        # It may have been stopped.
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(PATIENCE)
    if process.stdout:
        process.stdout.close()


class Api:
    """The HTTP API of a daprd."""

    def __init__(self, http, grpc):
        self.http, self.grpc = http, grpc
        self.url = f"http://127.0.0.1:{http}/v1.0"

    def is_ready(self):
        try:
            return urlopen(f"{self.url}/healthz/outbound", timeout=PATIENCE).status == 204
        except (URLError, ConnectionError):
            return False

    def ask(self, method, path, body=None, **headers):
        """Status, headers and body of an answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(self.url + path, data, {"Content-Type": "application/json", **headers}, method=method)
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.headers, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.headers, error.read()


class State:
    """One state store of a daprd."""

    def __init__(self, api, store):
        self.api, self.path = api, f"/state/{store}"

    def save(self, *items):
        """The status."""
        return self.api.ask("POST", self.path, list(items))[0]

    def get(self, key):
        """Value and headers."""
        status, headers, body = self.api.ask("GET", f"{self.path}/{key}")
        return (json.loads(body) if status == 200 else None), headers

    def value(self, key):
        return self.get(key)[0]

    def etag(self, key):
        return self.get(key)[1]["Etag"]

    def delete(self, key, **headers):
        """The status."""
        return self.api.ask("DELETE", f"{self.path}/{key}", **headers)[0]

    def transact(self, *operations):
        """Status and body."""
        status, _, body = self.api.ask("POST", f"{self.path}/transaction", {"operations": list(operations)})
        return status, body


def upsert(key, value, **more):
    """One operation of a transaction."""
    return {"operation": "upsert", "request": {"key": key, "value": value, **more}}


def check_environment(*names):
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        sys.exit("these variables do not say where the programs are: " + ", ".join(missing))
    # So that everything ends that was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


if __name__ == "__main__":
    check_environment("DAPRD", "STATESTORED", "STATESTORE_DAPR")
    with Processes() as processes:
        daprd = processes.usual()
        ports = {"DAPR_HTTP_PORT": str(daprd.http), "DAPR_GRPC_PORT": str(daprd.grpc)}
        sys.exit(subprocess.run(sys.argv[1:], env={**os.environ, **ports}, check=False).returncode)
