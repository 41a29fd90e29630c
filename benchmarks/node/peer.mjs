/** The protocol written by hand over MQTT.js, as a program does that has no client: no retries, no time-outs, one connection. */
import { randomBytes } from "node:crypto";
import mqtt from "mqtt";

const REQUESTS = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";

/** A RESP3 array of bulk strings. */
function command(...parts) {
  const chunks = [Buffer.from(`*${parts.length}\r\n`)];
  for (const part of parts) {
    const bytes = Buffer.from(part);
    chunks.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n"));
  }
  return Buffer.concat(chunks);
}

/** The value of a bulk string, `null` for an absent key. */
function bulk(payload) {
  const end = payload.indexOf("\r\n");
  const length = Number(payload.toString("latin1", 1, end));
  if (payload[0] !== 0x24 || Number.isNaN(length)) {
    throw new Error(payload.toString());
  }
  return length < 0 ? null : payload.subarray(end + 2, end + 2 + length);
}

export async function open(url) {
  const clientId = `peer-${randomBytes(6).toString("hex")}`;
  const responses = `clients/${clientId}/services/statestore/_any_/command/invoke/response`;
  const client = await mqtt.connectAsync(url, { protocolVersion: 5, clientId });
  await client.subscribeAsync(responses, { qos: 1 });

  // Without this, each small packet waits for the acknowledgement of the one before: 40 ms.
  client.stream.setNoDelay(true);
  let calls = 0;
  client.stream.on("data", () => {
    calls += 1;
  });

  const waiting = new Map();
  client.on("message", (_topic, payload, { properties }) => {
    const request = waiting.get(properties.correlationData.toString("latin1"));
    if (request === undefined) {
      return;
    }
    waiting.delete(properties.correlationData.toString("latin1"));
    if (properties.userProperties?.__stat !== "200" || payload[0] === 0x2d) {
      request.reject(new Error(payload.toString()));
    } else {
      request.resolve(payload);
    }
  });

  let [wall, counter, number] = [0, 0, 0n];
  const timestamp = () => {
    const now = Date.now();
    counter = now > wall ? 0 : counter + 1;
    wall = Math.max(now, wall);
    return `${String(wall).padStart(15, "0")}:${String(counter).padStart(5, "0")}:${clientId}`;
  };
  const prefix = randomBytes(8);

  const request = (payload) =>
    new Promise((resolve, reject) => {
      const correlationData = Buffer.allocUnsafe(16);
      prefix.copy(correlationData);
      correlationData.writeBigUInt64BE((number += 1n), 8);
      waiting.set(correlationData.toString("latin1"), { resolve, reject });
      client.publish(REQUESTS, payload, {
        qos: 1,
        properties: {
          responseTopic: responses,
          correlationData,
          messageExpiryInterval: 10,
          userProperties: { __ts: timestamp(), __srcId: clientId, __protVer: "1.0" },
        },
      });
    });

  return {
    set: (key, value) => request(command("SET", key, value)),
    get: async (key) => bulk(await request(command("GET", key))),
    /** Calls into the event loop so far: one for each piece that the socket brings. */
    calls: () => calls,
    close: () => client.endAsync(),
  };
}
