/** A proxy in front of a server. */
import { createConnection, createServer } from "node:net";

/** Ends with its test. `change` gets and returns what a client sends. */
export async function proxyOf(t, server, change = (data) => data) {
  const { hostname, port } = new URL(server.url);
  const clients = new Set();
  let isCut = false;
  const proxy = createServer((near) => {
    if (isCut) {
      near.destroy();
      return;
    }
    clients.add(near);
    const far = createConnection({ host: hostname, port: Number(port) });
    const end = () => {
      clients.delete(near);
      near.destroy();
      far.destroy();
    };
    near.on("data", (data) => far.write(change(data))).on("error", end).on("close", end);
    far.on("data", (data) => near.write(data)).on("error", end).on("close", end);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => proxy.close());
  return {
    url: `mqtt://127.0.0.1:${proxy.address().port}`,
    /** Ends all connections, and those that clients make until `restore`. */
    cut() {
      isCut = true;
      clients.forEach((near) => near.destroy());
    },
    restore() {
      isCut = false;
    },
  };
}

/** The change that hides the extensions of a server from a client. */
export function withoutExtensions(data) {
  return Buffer.from(data.toString("latin1").replaceAll("$4\r\nCAPS\r\n", "$4\r\nNONE\r\n"), "latin1");
}
