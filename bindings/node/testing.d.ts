/**
 * A real server for tests: `statestored`, in memory unless told otherwise, on a free port of the loopback interface.
 *
 * ```ts
 * import { startServer } from "statestore/testing";
 *
 * await using server = await startServer();
 * await using client = await connect(server.url);
 * ```
 *
 * @module statestore/testing
 */

/** Options of {@link startServer}. */
export interface ServerOptions {
  /** The program; unless given that of the variable `STATESTORED`, of the package `@statestore/server`, or in the `PATH`. */
  binary?: string | undefined;
  /** Where it keeps its data; in memory unless given. */
  dataDir?: string | undefined;
  /** The port; a free one unless given. */
  port?: number | undefined;
  /** Further arguments, as on its command line. */
  args?: readonly string[] | undefined;
}

/** A running server. */
export interface Server extends AsyncDisposable {
  /** For `connect`. */
  readonly url: string;
  /** Port of the server. */
  readonly port: number;
  /** Its process id. */
  readonly pid: number;
  /** Ends it as an operator would, and resolves when it is gone. Stopping again does nothing. */
  stop(): Promise<void>;
  /** Ends it at once, as a power failure would. */
  kill(): Promise<void>;
}

/** Starts a server, and resolves when it takes connections. It ends at the latest with this process or worker, however that ends. */
export function startServer(options?: ServerOptions): Promise<Server>;
