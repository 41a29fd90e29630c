/** Spans and metrics of a client, as the SDK of OpenTelemetry gets them. */
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { test } from "node:test";
import { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { connect, Hlc } from "statestore";
import { instrument } from "statestore/opentelemetry";
import { newProject } from "./project.mjs";
import { clientOf, serverOf } from "./system.mjs";

/** The context manager that an SDK for Node has. */
const storage = new AsyncLocalStorage();
context.setGlobalContextManager({
  active: () => storage.getStore() ?? ROOT_CONTEXT,
  with: (active, work, self, ...args) => storage.run(active, () => work.call(self, ...args)),
  bind: (active, work) => work,
  enable() {
    return this;
  },
  disable() {
    return this;
  },
});

function sdk(t) {
  const spans = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  t.after(() => Promise.all([tracerProvider.shutdown(), meterProvider.shutdown()]));
  /** The data points of each metric, by its name. */
  const metrics = async () => {
    exporter.reset();
    await reader.forceFlush();
    const all = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics).flatMap(({ metrics }) => metrics);
    return new Map(all.map(({ descriptor, dataPoints }) => [descriptor.name, dataPoints]));
  };
  return { spans: () => spans.getFinishedSpans(), providers: { tracerProvider, meterProvider }, metrics };
}

test("each call is a span with the attributes of the conventions, and without its key", async (t) => {
  const server = await serverOf(t);
  const { spans, providers } = sdk(t);
  const client = await clientOf(t, server);
  assert.equal(instrument(client, providers), client);
  await client.set("secret", "value");
  assert.equal(String((await client.get("secret")).value), "value");
  await assert.rejects(client.get(""), RangeError);
  await assert.rejects(client.get(7), TypeError);
  // One page, and the end.
  for await (const key of client.scan("secret")) {
    assert.equal(String(key), "secret");
  }
  await client.withLock("door", (guard) => guard.set("inside", "value"));

  const common = { "db.system.name": "statestore", "server.address": "127.0.0.1", "server.port": server.port };
  const found = spans().map(({ name, kind, attributes, status }) => ({ name, kind, attributes, status: status.code }));
  const expected = ["set", "get", "get", "get", "scan", "scan", "lock", "guard.set", "guard.release"].map((operation) => ({
    name: `${operation} 127.0.0.1:${server.port}`,
    kind: SpanKind.CLIENT,
    attributes: { ...common, "db.operation.name": operation },
    status: SpanStatusCode.UNSET,
  }));
  for (const [index, type] of [[2, "InvalidArgument"], [3, "TypeError"]]) {
    expected[index].attributes["error.type"] = type;
    expected[index].status = SpanStatusCode.ERROR;
  }
  assert.deepEqual(found, expected);
  assert(!JSON.stringify(found).includes("secret"));
});

test("spans have keys if they are asked for", async (t) => {
  const { spans, providers } = sdk(t);
  const client = instrument(await clientOf(t, await serverOf(t)), { ...providers, keys: true });
  await client.set("text", "value");
  await client.get(Buffer.from("bytes"));
  await client.update("new", () => "value");
  await client.getMany(["several", "keys"]);
  assert.deepEqual(spans().map(({ attributes }) => attributes["statestore.key"]), ["text", "bytes", "new", undefined]);
});

test("a call is a child of the active span, and the parent of spans of its function", async (t) => {
  const { spans, providers } = sdk(t);
  const client = instrument(await clientOf(t, await serverOf(t)), providers);
  const outer = providers.tracerProvider.getTracer("test").startSpan("request");
  let inner;
  await context.with(trace.setSpan(context.active(), outer), () =>
    client.update("key", () => {
      inner = trace.getSpan(context.active())?.spanContext().spanId;
      return "value";
    }),
  );
  const [update] = spans();
  assert.equal(update.parentSpanContext?.spanId, outer.spanContext().spanId);
  assert.equal(inner, update.spanContext().spanId);
});

test("durations are a histogram, and the counters of each client are metrics", async (t) => {
  const server = await serverOf(t);
  const { providers, metrics } = sdk(t);
  const client = instrument(await connect(server.url, { clientId: "one" }), providers);
  const other = instrument(await clientOf(t, server, { clientId: "two" }), providers);
  await client.set("key", "value");
  await client.get("key");
  await client.get("key");
  await assert.rejects(client.get(""));
  await other.get("key");

  const first = await metrics();
  const counts = first.get("db.client.operation.duration").map(({ attributes, value }) => {
    assert(value.sum >= 0 && value.sum < 60, `${value.sum} seconds`);
    return [attributes["db.operation.name"], attributes["error.type"], value.count];
  });
  assert.deepEqual(counts.sort(), [["get", "InvalidArgument", 1], ["get", undefined, 3], ["set", undefined, 1]].sort());
  const { wakeUps: _, ...counters } = client.counters();
  for (const [counter, value] of Object.entries(counters)) {
    const name = `statestore.client.${counter.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
    const mine = first.get(name)?.find(({ attributes }) => attributes["statestore.client.id"] === "one");
    assert.equal(mine?.value, value, name);
  }

  await client.close();
  await other.get("key");
  const sent = new Map((await metrics()).get("statestore.client.sent").map(({ attributes, value }) => [attributes["statestore.client.id"], value]));
  assert.equal(sent.get("one"), counters.sent);
  assert.equal(sent.get("two"), other.counters().sent);
});

test("errors of an instrumented client name the line of the call", async (t) => {
  const { providers } = sdk(t);
  const client = instrument(await clientOf(t, await serverOf(t)), providers);
  async function caller() {
    await client.set("key", "value", { fencingToken: Hlc.parse("99999999999999:0:a") });
  }
  await assert.rejects(caller, (error) => error.code === "FencingTokenSkew" && /\bcaller\b.*opentelemetry\.test\.mjs/.test(error.stack));
});

test("what cannot be meant is refused", async (t) => {
  const client = await clientOf(t, await serverOf(t));
  assert.throws(() => instrument({}), { name: "TypeError", message: "client must be a Client, not object" });
  assert.throws(() => instrument(client, { key: true }), { name: "TypeError", message: "instrument has no option key; the nearest is keys" });
  assert.throws(() => instrument(client, { keys: 1 }), TypeError);
  assert.equal(instrument(client), client);
  assert.throws(() => instrument(client), { code: "InvalidArgument", message: "client is instrumented already" });
  await client.set("key", "value");
});

test("without @opentelemetry/api one sentence says what is missing", (t) => {
  const project = newProject();
  t.after(() => rmSync(project, { recursive: true }));
  const run = (code) => spawnSync(process.execPath, ["--eval", code], { cwd: project, encoding: "utf8" });
  const { status, stderr } = run('require("statestore/opentelemetry")');
  assert.equal(status, 1);
  assert.match(stderr, /Error: statestore\/opentelemetry needs the package @opentelemetry\/api, which is not installed: npm install @opentelemetry\/api\n/);
  assert.equal(run('require("statestore")').status, 0);
});
