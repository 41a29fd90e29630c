/** Spans and metrics of a client; opentelemetry.d.ts declares them. Only the API of OpenTelemetry is loaded, and only by this module. */
import { Buffer } from "node:buffer";
import { performance } from "node:perf_hooks";
import type { Attributes, BatchObservableCallback, Meter, Observable } from "@opentelemetry/api";
import type { Client as DeclaredClient, Counters } from "../index.js";
import type { InstrumentOptions } from "../opentelemetry.js";
import * as args from "./arguments.js";
import { Client, instrument as instrumentClient, type ServerAddress } from "./client.js";
import type { Call } from "./known.js";
import type { Instrumentation } from "./operations.js";
import { isUint8Array } from "./realm.js";

type Api = typeof import("@opentelemetry/api");

const api = loadApi();

const SCOPE = "statestore";
const SYSTEM = "statestore";
/** Waits for something in this process or for events, not for a response. */
const WITHOUT_SPAN: ReadonlySet<Call> = new Set<Call>(["connect", "close", "next", "lost", "leave"]);
/** Names of operations that differ from the call behind them. */
const NAMES: Partial<Record<Call, string>> = { nextPage: "scan", withLock: "lock", finish: "guard.release" };
/** Bounds in seconds, from the semantic conventions for database clients. */
const BOUNDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];

const GAUGES: readonly (keyof Counters)[] = ["inFlight", "queued"];
const COUNTERS: readonly (keyof Counters)[] = [
  "sent",
  "completed",
  "timedOut",
  "failed",
  "superseded",
  "resent",
  "reconnects",
  "reauthentications",
  "sessionsLost",
  "protocolErrors",
  "unmatchedResponses",
  "clockSkews",
  "notifications",
  "staleNotifications",
  "malformedMessages",
  "wakeUps",
];

function loadApi(): Api {
  try {
    return require("@opentelemetry/api") as Api;
  } catch (cause) {
    throw new Error("statestore/opentelemetry needs the package @opentelemetry/api, which is not installed: npm install @opentelemetry/api", {
      cause,
    });
  }
}

export function instrument<C extends DeclaredClient<string> | DeclaredClient>(client: C, given?: InstrumentOptions): C {
  if (!Client.is(client)) {
    throw args.wrongType("client", "a Client", client);
  }
  const from = args.options("instrument", given);
  const keys = args.flag(from, "keys") ?? false;
  const { version } = require("../package.json") as { version: string };
  const tracer = (given?.tracerProvider ?? api.trace).getTracer(SCOPE, version);
  const meter = (given?.meterProvider ?? api.metrics).getMeter(SCOPE, version);
  client[instrumentClient]((server) => {
    const common = { "db.system.name": SYSTEM, ...addressOf(server) };
    observeCounters(client, meter, common);
    return observer(tracer, meter, common, keys);
  });
  return client;
}

function addressOf(server: ServerAddress | undefined): Attributes {
  if (server === undefined) {
    return {};
  }
  return { "server.address": server.address, ...(server.port === undefined ? {} : { "server.port": server.port }) };
}

function observer(tracer: ReturnType<Api["trace"]["getTracer"]>, meter: Meter, common: Attributes, keys: boolean): Instrumentation {
  const duration = meter.createHistogram("db.client.operation.duration", {
    description: "Duration of database client operations.",
    unit: "s",
    advice: { explicitBucketBoundaries: BOUNDS },
  });
  const address = common["server.address"];
  const target = address === undefined ? "" : ` ${[address, common["server.port"]].filter((part) => part !== undefined).join(":")}`;

  return async (call, key, begin) => {
    if (WITHOUT_SPAN.has(call)) {
      return await begin();
    }
    const operation = NAMES[call] ?? call;
    const attributes: Attributes = { ...common, "db.operation.name": operation };
    const shown = keys ? shownKey(key) : undefined;
    const span = tracer.startSpan(`${operation}${target}`, {
      kind: api.SpanKind.CLIENT,
      attributes: shown === undefined ? attributes : { ...attributes, "statestore.key": shown },
    });
    const began = performance.now();
    try {
      return await api.context.with(api.trace.setSpan(api.context.active(), span), begin);
    } catch (error) {
      attributes["error.type"] = errorType(error);
      span.setAttribute("error.type", attributes["error.type"]);
      // Messages of errors may have keys.
      span.setStatus({ code: api.SpanStatusCode.ERROR, ...(keys && error instanceof Error ? { message: error.message } : {}) });
      throw error;
    } finally {
      duration.record((performance.now() - began) / 1000, attributes);
      span.end();
    }
  };
}

function shownKey(key: unknown): string | undefined {
  if (typeof key === "string") {
    return key;
  }
  return isUint8Array(key) ? Buffer.from(key).toString() : undefined;
}

/** The kind of an error, or the name of its class. */
function errorType(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  return typeof code === "string" ? code : typeof name === "string" ? name : "_OTHER";
}

/** Reports the counters of a client until it is closed. */
function observeCounters(client: Client, meter: Meter, common: Attributes): void {
  const nameOf = (counter: string) => `statestore.client.${counter.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
  const observed = new Map<keyof Counters, Observable>();
  for (const counter of COUNTERS) {
    observed.set(counter, meter.createObservableCounter(nameOf(counter)));
  }
  for (const gauge of GAUGES) {
    observed.set(gauge, meter.createObservableUpDownCounter(nameOf(gauge)));
  }
  const attributes = { ...common, "statestore.client.id": client.clientId() };
  const report: BatchObservableCallback = (result) => {
    const counters = client.counters();
    for (const [name, observable] of observed) {
      result.observe(observable, counters[name], attributes);
    }
  };
  const all = [...observed.values()];
  meter.addBatchObservableCallback(report, all);
  client.on("state", (state: { is: string }) => {
    if (state.is === "closed") {
      meter.removeBatchObservableCallback(report, all);
    }
  });
}
