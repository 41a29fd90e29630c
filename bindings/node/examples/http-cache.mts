/**
 * An HTTP service that answers from memory and is never stale for long: an observer keeps the copy fresh.
 *
 *     GET /        the present configuration, without asking the store
 *     PUT /        sets it, for all instances of this service
 *
 * Environment: STATESTORE_URL, PORT.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { connect, type Entry, StateStoreError } from "statestore";

const KEY = "service/configuration";
const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883");

// From when this resolves every change is told, so what is read next misses nothing.
let cached: Pick<Entry, "value" | "version"> | null = null;
const observer = await client.observe(KEY, (observation) => {
  if (observation.is === "set") {
    cached = observation;
  } else if (observation.is === "deleted") {
    cached = null;
  }
});
cached ??= await client.get(KEY);

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) {
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

const server = createServer(async (request, response) => {
  try {
    if (request.method === "PUT") {
      const { version } = await client.set(KEY, await bodyOf(request), { timeout: 2_000 });
      response.writeHead(204, { etag: `"${version}"` }).end();
    } else if (cached === null) {
      response.writeHead(404).end();
    } else {
      response.writeHead(200, { etag: `"${cached.version}"` }).end(cached.value);
    }
  } catch (error) {
    const isTemporary = error instanceof StateStoreError && error.retryable;
    response.writeHead(isTemporary ? 503 : 500).end(String(error));
  }
});
server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1");
await once(server, "listening");
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);

await once(process, "SIGTERM");
server.close();
observer.close();
await client.close();
