/** A proxy in front of a server, which can be cut off. */
import { createConnection, createServer } from "node:net";

/** Ends with its test. */
export async function proxyOf(t, server) {
  const { hostname, port } = new URL(server.url);
  const clients = new Set();
  let isCut = false;
  let accepted = 0;
  const proxy = createServer((near) => {
    if (isCut) {
      near.destroy();
      return;
    }
    accepted += 1;
    clients.add(near);
    const far = createConnection({ host: hostname, port: Number(port) });
    const end = () => {
      clients.delete(near);
      near.destroy();
      far.destroy();
    };
    near.on("error", end).on("close", end).pipe(far);
    far.on("error", end).on("close", end).pipe(near);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    isCut = true;
    clients.forEach((near) => near.destroy());
  };
  t.after(() => {
    cut();
    proxy.close();
  });
  return {
    url: `mqtt://127.0.0.1:${proxy.address().port}`,
    /** Number of connections that the proxy has accepted. */
    connections: () => accepted,
    /** Ends all connections, and those that clients make until `restore`. */
    cut,
    restore() {
      isCut = false;
    },
  };
}
