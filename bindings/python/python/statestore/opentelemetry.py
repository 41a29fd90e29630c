"""Spans and metrics of a client for OpenTelemetry, by the semantic conventions for databases.

    pip install statestore[otel]

    from statestore.opentelemetry import instrument

    client = instrument(statestore.connect("mqtt://localhost"))

Each call that waits has a span of the kind ``CLIENT`` and is recorded in the histogram ``db.client.operation.duration``, with the
attributes ``db.system.name`` (``statestore``), ``db.operation.name`` (the name of the call), ``server.address`` and ``server.port``.
A failed call has ``error.type``: `StateStoreError.kind`, or the name of another exception. Calls of several keys and pipelines have
``db.operation.batch.size``.

The `Counters` of each client that still exists are the metrics ``statestore.client.*``, with ``messaging.client.id``. The module uses the API of
OpenTelemetry only. Without an SDK it records nothing. A client that is not instrumented has no cost.

Keys and messages of errors, which contain keys, are recorded only with ``record_keys``. Values are never recorded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
import weakref
from typing import TYPE_CHECKING, Any, TypeVar, Union

try:
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider
except ImportError as error:
    raise ImportError(
        "statestore.opentelemetry needs the package opentelemetry-api: pip install statestore[otel]", name=error.name
    ) from error

import statestore
from statestore import _results, aio
from statestore._coroutines import async_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["instrument"]

_AnyClient = Union["statestore.Client[Any]", "aio.Client[Any]"]
_C = TypeVar("_C", bound=_AnyClient)

# The calls of each class that wait, and so have a span.
_CALLS = {
    "Client": (
        *("get", "get_many", "set", "set_many", "delete", "delete_many", "vdel", "exists", "ttl", "touch", "incr", "update"),
        *("ping", "capabilities", "transact", "observe", "observe_matching", "mirror", "lock"),
    ),
    "Pipeline": ("execute",),
    "Lease": ("acquire", "release", "holder"),
    "Guard": ("renew", "release", "set", "update", "delete", "vdel"),
    "Election": ("campaign", "leader"),
    "Leadership": ("proclaim", "resign"),
}
# The calls without a request whose result has such calls.
_SOURCES = {"Client": ("pipeline", "lease", "election")}
# Calls that are awaited, or used in `async with`.
_OPENING = {"observe", "observe_matching", "mirror", "lock", "campaign"}
# Counters that can fall.
_LEVELS = {"in_flight", "queued"}
# The bounds of the histogram in seconds, by the conventions.
_BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
_SCOPE = "statestore"


def instrument(
    client: _C,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    record_keys: bool = False,
) -> _C:
    """Records spans and metrics of a client from now on, and of the pipelines, leases, guards and elections that it creates. Returns the
    client.

    The providers are the global ones by default. With ``record_keys``, spans have the key of a call as ``db.operation.parameter.key``,
    and the messages of errors.
    """
    tracer = trace.get_tracer(_SCOPE, statestore.__version__, tracer_provider)
    shared = _metrics(meter_provider)
    _adopt(client, _Recorder(tracer, shared, _attributes(client._address), record_keys))  # type: ignore[union-attr]
    shared.clients.add(client)
    return client


class _Metrics:
    """The instruments of a meter provider, and the clients whose counters they report."""

    def __init__(self, provider: MeterProvider | None) -> None:
        self.clients: weakref.WeakSet[_AnyClient] = weakref.WeakSet()
        meter = metrics.get_meter(_SCOPE, statestore.__version__, provider)
        self.duration = meter.create_histogram(
            "db.client.operation.duration",
            unit="s",
            description="Duration of database client operations.",
            explicit_bucket_boundaries_advisory=_BOUNDS,
        )
        for field in dataclasses.fields(_results.Counters):
            is_level = field.name in _LEVELS
            create = meter.create_observable_up_down_counter if is_level else meter.create_observable_counter
            create(
                f"statestore.client.{field.name}",
                [functools.partial(self._observe, field.name)],
                unit="1",
                description=f"Counter {field.name} of the client.",
            )

    def _observe(self, name: str, _: CallbackOptions) -> Iterator[Observation]:
        for client in list(self.clients):
            try:
                counters, client_id = client.counters(), client.client_id()
            except statestore.StateStoreError:
                # It belongs to the parent of this process.
                self.clients.discard(client)
                continue
            attributes = {**_attributes(client._address), "messaging.client.id": client_id}  # type: ignore[union-attr]
            yield Observation(getattr(counters, name), attributes)


@functools.lru_cache(maxsize=None)
def _metrics(provider: MeterProvider | None) -> _Metrics:
    """Returns the instruments of a provider. It ignores the callbacks of an instrument that exists already."""
    return _Metrics(provider)


def _attributes(address: str) -> dict[str, Any]:
    """Returns the attributes of all calls of a client. A client of several brokers has no address."""
    attributes: dict[str, Any] = {"db.system.name": "statestore"}
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "," not in address:
        attributes.update({"server.address": host.strip("[]"), "server.port": int(port)})
    elif address.startswith("/"):
        attributes["server.address"] = address
    return attributes


class _Recorder:
    """Records the calls of one client."""

    def __init__(self, tracer: trace.Tracer, shared: _Metrics, attributes: dict[str, Any], record_keys: bool) -> None:
        self._tracer = tracer
        self._duration = shared.duration
        self._attributes = attributes
        self._record_keys = record_keys
        address, port = attributes.get("server.address"), attributes.get("server.port")
        self._target = f" {address}:{port}" if port else f" {address}" if address else ""

    @contextlib.contextmanager
    def call(self, name: str, size: int, argument: tuple[str, object] | None) -> Iterator[None]:
        """Records a call: its name, the number of its requests, and the argument that names what it is about."""
        attributes = {**self._attributes, "db.operation.name": name}
        details = {"db.operation.batch.size": size} if size > 1 else {}
        if self._record_keys and argument is not None:
            details[f"db.operation.parameter.{argument[0]}"] = _text(argument[1])
        began = time.perf_counter()
        with self._tracer.start_as_current_span(
            f"{name}{self._target}",
            kind=SpanKind.CLIENT,
            attributes={**attributes, **details},
            record_exception=self._record_keys,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                attributes["error.type"] = _error_type(error)
                span.set_attribute("error.type", attributes["error.type"])
                span.set_status(Status(StatusCode.ERROR, str(error) if self._record_keys else None))
                raise
            finally:
                self._duration.record(time.perf_counter() - began, attributes)


def _error_type(error: BaseException) -> str:
    if isinstance(error, statestore.StateStoreError):
        return error.kind
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(value: object) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)


def _size(called: object, arguments: tuple[Any, ...]) -> int:
    """Returns the number of requests of a call; 1 if it is unknown."""
    batch: Any = called if isinstance(called, (statestore.Pipeline, aio.Pipeline)) else arguments[0] if arguments else None
    if isinstance(batch, (str, bytes, bytearray, memoryview)) or not hasattr(batch, "__len__"):
        return 1
    return len(batch)


def _argument(arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[str, object] | None:
    """Returns the key, name or pattern of a call with its parameter name."""
    for name in ("key", "name", "pattern"):
        if name in options:
            return name, options[name]
    if arguments and isinstance(arguments[0], (str, bytes, bytearray, memoryview)):
        return "key", arguments[0]
    return None


def _adopt(thing: Any, recorder: _Recorder) -> Any:
    """Gives an object the class that records its calls, if its class has such calls. Returns the object."""
    cls: Any = type(thing)
    if not cls.__dict__.get("_is_instrumented") and cls.__name__ in _CALLS and cls.__module__ in ("statestore._blocking", "statestore.aio"):
        thing.__class__ = _instrumented(cls)
    if type(thing).__dict__.get("_is_instrumented"):
        thing._recorder = recorder
    return thing


@functools.lru_cache(maxsize=None)
def _instrumented(cls: Any) -> Any:
    """Returns the subclass of a class of the library that records its calls."""
    names = [name for name in _CALLS[cls.__name__] if hasattr(cls, name)]
    wrapped: dict[str, Any] = {name: _recorded(name, getattr(cls, name), cls.__module__) for name in names}
    wrapped.update({name: _source(getattr(cls, name)) for name in _SOURCES.get(cls.__name__, ())})
    place = {"__module__": cls.__module__, "__doc__": cls.__doc__, "_is_instrumented": True}
    return type(cls.__name__, (cls,), {**wrapped, **place})


def _recorded(name: str, method: Callable[..., Any], module: str) -> Callable[..., Any]:
    """Returns a method that records its calls."""
    if module == "statestore.aio":
        return _recorded_coroutine(name, method)

    @functools.wraps(method)
    def call(self: Any, /, *arguments: Any, **options: Any) -> Any:
        with self._recorder.call(name, _size(self, arguments), _argument(arguments, options)):
            result = method(self, *arguments, **options)
        return _adopt(result, self._recorder)

    return call


def _recorded_coroutine(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(self: Any, /, *arguments: Any, **options: Any) -> Any:
        with self._recorder.call(name, _size(self, arguments), _argument(arguments, options)):
            result = await method(self, *arguments, **options)
        return _adopt(result, self._recorder)

    return async_context(call) if name in _OPENING else call


def _source(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method whose result records its calls."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: Any, **options: Any) -> Any:
        return _adopt(method(self, *arguments, **options), self._recorder)

    return call
