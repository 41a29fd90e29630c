/**
 * Pushes every change of a key to browsers: `curl -N http://127.0.0.1:8080/room/1` follows the key `room/1`.
 *
 * A browser that reads slowly holds nothing up and costs no memory: it is told the latest state when it is ready for it.
 *
 * Environment: STATESTORE_URL, PORT.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "statestore";

const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883");

const server = createServer(async (request, response) => {
  const key = decodeURIComponent(request.url?.slice(1) ?? "");
  if (key === "") {
    response.writeHead(404).end();
    return;
  }
  const observer = await client.observe(key, { overflow: "latest" });
  response.on("close", () => observer.close());
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  const send = async (event: string, data: string) => {
    if (!response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`) && !response.destroyed) {
      await Promise.race([once(response, "drain"), once(response, "close")]);
    }
  };
  const present = await client.get(key);
  await send(present === null ? "deleted" : "set", present?.value.toString() ?? "");
  for await (const observation of observer) {
    if (observation.is === "set" || observation.is === "deleted") {
      await send(observation.is, observation.is === "set" ? observation.value.toString() : "");
    }
  }
  response.end();
});
server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1");
await once(server, "listening");
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);

await once(process, "SIGTERM");
// Ends all observers, and with them the responses.
await client.close();
server.close();
server.closeAllConnections();
