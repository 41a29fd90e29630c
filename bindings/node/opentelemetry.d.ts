/**
 * Spans and metrics of a client, by the semantic conventions of OpenTelemetry for databases. It needs the package `@opentelemetry/api`.
 *
 * ```ts
 * import { connect } from "statestore";
 * import { instrument } from "statestore/opentelemetry";
 *
 * const client = instrument(await connect("mqtt://127.0.0.1:1883"));
 * ```
 *
 * @module statestore/opentelemetry
 */
import type { MeterProvider, TracerProvider } from "@opentelemetry/api";
import type { Bytes, Client } from "./index.js";

/** Options of {@link instrument}. */
export interface InstrumentOptions {
  /**
   * Whether spans have the key of a call (`statestore.key`) and the messages of errors, which may name keys; `false` unless given. Calls with
   * several keys have none.
   */
  keys?: boolean | undefined;
  /** Source of the tracer; the global one unless given. */
  tracerProvider?: TracerProvider | undefined;
  /** Source of the meter; the global one unless given. */
  meterProvider?: MeterProvider | undefined;
}

/**
 * Reports each later call of a client, its guards and leases as a span and in the histogram `db.client.operation.duration`, and the
 * counters of the client as `statestore.client.…` until it is closed. Returns the client. Start your OpenTelemetry SDK before.
 *
 * A client can be instrumented once.
 */
export function instrument<V extends Bytes>(client: Client<V>, options?: InstrumentOptions): Client<V>;
