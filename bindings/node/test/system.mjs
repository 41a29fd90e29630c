/** Servers and clients that end with their test. */
import { connect } from "statestore";
import { startServer } from "statestore/testing";

export async function serverOf(t, options) {
  const server = await startServer(options);
  t.after(() => server.kill());
  return server;
}

export async function clientOf(t, server, settings) {
  const client = await connect(server.url, settings);
  t.after(() => client.close());
  return client;
}
