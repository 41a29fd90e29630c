"""Spans and metrics of an instrumented client, as exporters of OpenTelemetry in memory get them."""

import asyncio
import contextlib
import gc
import subprocess
import sys
import weakref
from urllib.parse import urlsplit

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import statestore
from statestore import aio
from statestore.opentelemetry import instrument

ERROR = "error.type"
SECRET = "line-7/secret"


class Telemetry:
    """Providers with exporters in memory."""

    def __init__(self):
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self.reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))

    def instrument(self, client, **options):
        return instrument(client, tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def take_spans(self):
        spans = self.exporter.get_finished_spans()
        self.exporter.clear()
        return spans

    def operations(self):
        """The names of the operations since the last call."""
        return [span.attributes["db.operation.name"] for span in self.take_spans()]

    def points(self, name):
        """The data points of a metric."""
        data = self.reader.get_metrics_data()
        found = [metric for of in data.resource_metrics for scope in of.scope_metrics for metric in scope.metrics if metric.name == name]
        return [point for metric in found for point in metric.data.data_points]


@pytest.fixture
def telemetry():
    telemetry = Telemetry()
    yield telemetry
    telemetry.tracers.shutdown()
    telemetry.meters.shutdown()


@pytest.fixture
def instrumented(telemetry, connect):
    client = connect()
    assert telemetry.instrument(client) is client
    return client


def test_a_call_has_a_span_of_the_conventions(face, telemetry, instrumented, statestore_server):
    face.run(instrumented.set(SECRET, "v"))
    (span,) = telemetry.take_spans()
    address = urlsplit(statestore_server.url)
    assert span.name == f"set {address.hostname}:{address.port}"
    assert span.kind == SpanKind.CLIENT and span.status.status_code == StatusCode.UNSET
    assert span.instrumentation_scope.name == "statestore" and span.instrumentation_scope.version == statestore.__version__
    assert dict(span.attributes) == {
        "db.system.name": "statestore",
        "db.operation.name": "set",
        "server.address": address.hostname,
        "server.port": address.port,
    }


CALLS = {
    "get": lambda client: client.get("a"),
    "get_many": lambda client: client.get_many(["a", "b"]),
    "set": lambda client: client.set("a", "1"),
    "set_many": lambda client: client.set_many({"a": "1"}),
    "delete": lambda client: client.delete("b"),
    "delete_many": lambda client: client.delete_many(["b"]),
    "vdel": lambda client: client.vdel("b", "1"),
    "exists": lambda client: client.exists("a"),
    "ttl": lambda client: client.ttl("a"),
    "touch": lambda client: client.touch("a", 60),
    "incr": lambda client: client.incr("a"),
    "update": lambda client: client.update("a", lambda _: "1"),
    "ping": lambda client: client.ping(),
    "capabilities": lambda client: client.capabilities(),
    "transact": lambda client: client.transact(client.transaction().set("a", "1")),
    "observe": lambda client: client.observe("a"),
    "observe_matching": lambda client: client.observe_matching("a*"),
    "mirror": lambda client: client.mirror("a*"),
    "lock": lambda client: client.lock("lock"),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_call_of_a_client_has_one_span(face, telemetry, instrumented, name):
    face.run(CALLS[name](instrumented))
    assert telemetry.operations() == [name]


def test_what_a_client_creates_is_instrumented_too(face, telemetry, instrumented):
    face.run(instrumented.pipeline().set("a", "1").get("a").execute())
    (span,) = telemetry.take_spans()
    assert (span.attributes["db.operation.name"], span.attributes["db.operation.batch.size"]) == ("execute", 2)
    lease = instrumented.lease("lease")
    guard = face.run(lease.acquire())
    assert face.run(lease.acquire()).by is not None
    face.run(guard.set("a", "2"))
    face.run(guard.release())
    assert telemetry.operations() == ["acquire", "acquire", "set", "release"]
    leadership = face.run(instrumented.election("election").campaign("me"))
    face.run(leadership.proclaim("you"))
    face.run(leadership.resign())
    assert telemetry.operations() == ["campaign", "proclaim", "resign"]


def test_blocks_work_as_before(face, telemetry, instrumented):
    if face.name == "blocking":
        with instrumented.lock("lock") as guard, instrumented.observe("a"):
            guard.set("a", "1")
    else:

        async def run():
            async with instrumented.lock("lock") as guard, instrumented.observe("a"):
                await guard.set("a", "1")

        face.run(run())
    assert telemetry.operations()[:3] == ["lock", "observe", "set"]
    module = statestore if face.name == "blocking" else aio
    assert isinstance(instrumented, module.Client) and type(instrumented).__name__ == "Client"
    assert repr(instrumented).startswith("<Client ")


def test_a_batch_has_its_size(face, telemetry, instrumented):
    face.run(instrumented.get_many(["a", "b", "c"]))
    face.run(instrumented.set_many({"a": "1", "b": "2"}))
    face.run(instrumented.transact(instrumented.transaction().set("a", "1").delete("b").delete("c")))
    face.run(instrumented.get_many(iter(["a"])))
    assert [span.attributes.get("db.operation.batch.size") for span in telemetry.take_spans()] == [3, 2, 3, None]


def test_calls_within_a_call_are_its_children(telemetry, statestore_client):
    client = telemetry.instrument(statestore_client)
    client.update("a", lambda _: str(client.exists("b")))
    inner, outer = telemetry.take_spans()
    assert [span.attributes["db.operation.name"] for span in (inner, outer)] == ["exists", "update"]
    assert inner.parent.span_id == outer.context.span_id


def test_a_failure_has_its_kind_and_no_key(face, telemetry, instrumented):
    with pytest.raises(statestore.TimedOutError):
        face.run(instrumented.get(SECRET, timeout=0))
    with pytest.raises(TypeError):
        face.run(instrumented.set(SECRET, 7))
    timed_out, wrong = telemetry.take_spans()
    assert (timed_out.attributes[ERROR], wrong.attributes[ERROR]) == ("TimedOut", "TypeError")
    for span in (timed_out, wrong):
        assert span.status.status_code == StatusCode.ERROR
        assert SECRET not in span.to_json() and not span.events


def test_keys_are_recorded_if_asked_for(face, telemetry, connect):
    client = telemetry.instrument(connect(), record_keys=True)
    face.run(client.get(SECRET))
    face.run(client.get(b"\xff"))
    with pytest.raises(statestore.TimedOutError):
        face.run(client.get(SECRET, timeout=0))
    spans = telemetry.take_spans()
    assert [span.attributes["db.operation.parameter.key"] for span in spans] == [SECRET, "\\xff", SECRET]
    assert SECRET in spans[2].status.description and spans[2].events[0].name == "exception"


def test_the_duration_of_calls(face, telemetry, instrumented):
    for _ in range(3):
        face.run(instrumented.get("a"))
    with pytest.raises(statestore.TimedOutError):
        face.run(instrumented.get("a", timeout=0))
    done, failed = sorted(telemetry.points("db.client.operation.duration"), key=lambda point: ERROR in point.attributes)
    assert (done.count, failed.count, failed.attributes[ERROR]) == (3, 1, "TimedOut")
    assert 0 < done.min <= done.max < done.sum < 60
    assert list(done.explicit_bounds) == [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
    assert done.attributes["db.operation.name"] == "get" and "server.port" in done.attributes


def test_the_counters_of_each_client_until_it_is_collected(face, telemetry, statestore_server):
    clients = [telemetry.instrument(face.run(face.module.connect(statestore_server.url, client_id=name))) for name in ("one", "two")]
    face.run(clients[0].get("a"))

    def completed():
        return {point.attributes["messaging.client.id"]: point.value for point in telemetry.points("statestore.client.completed")}

    before = completed()
    assert before == {client.client_id(): client.counters().completed for client in clients} and before["one"] > before["two"]
    assert {point.value for point in telemetry.points("statestore.client.in_flight")} == {0}
    for client in clients:
        face.run(client.close())
    assert completed() == before
    del client, clients[1]
    gc.collect()
    assert completed().keys() == {"one"}


def test_an_instrumented_client_is_collected(telemetry, statestore_server):
    client = telemetry.instrument(statestore.connect(statestore_server.url))
    client.get("a")
    client.close()
    reference = weakref.ref(client)
    del client
    gc.collect()
    assert reference() is None


def test_a_client_can_be_instrumented_again(face, telemetry, instrumented):
    other = Telemetry()
    other.instrument(instrumented)
    face.run(instrumented.get("a"))
    assert (telemetry.operations(), other.operations()) == ([], ["get"])


def test_other_clients_are_not_touched(face, telemetry, instrumented, connect):
    plain = connect()
    face.run(plain.get("a"))
    assert telemetry.operations() == []
    assert type(plain) is (statestore.Client if face.name == "blocking" else aio.Client)


def test_a_cancelled_call_has_an_error(telemetry, statestore_server):
    async def run():
        async with aio.connect(statestore_server.url) as client, client.lock("lock"):
            telemetry.instrument(client)
            waiting = asyncio.ensure_future(asyncio.wait_for(client.lock("lock", holder="other"), 0.01))
            with contextlib.suppress(asyncio.TimeoutError):
                await waiting

    asyncio.run(run())
    (span,) = telemetry.take_spans()
    assert span.attributes[ERROR] == "asyncio.exceptions.CancelledError"


def test_without_opentelemetry_the_import_names_the_package():
    program = "import sys; sys.modules['opentelemetry'] = None; import statestore.opentelemetry"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.endswith("needs the package opentelemetry-api: pip install statestore[otel]\n")


def test_the_package_does_not_import_opentelemetry():
    program = "import sys, statestore, statestore.aio; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
