/** Servers and clients that end with their test. */
import { join } from "node:path";
import { connect } from "statestore";
import { startServer } from "statestore/testing";

/** That of this checkout, unless the environment names another one. */
export const BINARY = process.env.STATESTORED ?? join(import.meta.dirname, "../../../target/debug/statestored");

export async function serverOf(t, options) {
  const server = await startServer({ binary: BINARY, ...options });
  t.after(() => server.kill());
  return server;
}

export async function clientOf(t, server, settings) {
  const client = await connect(server.url, settings);
  t.after(() => client.close());
  return client;
}
