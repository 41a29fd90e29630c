/**
 * A real server for tests: `statestored`, by default in memory and on a free port of the loopback interface.
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
  /** Folder of the data; in memory unless given. */
  dataDir?: string | undefined;
  /** The port; a free one unless given. */
  port?: number | undefined;
  /** Further arguments, as on its command line. */
  args?: readonly string[] | undefined;
}

/** A running server. */
export interface Server extends AsyncDisposable {
  /** URL for `connect`. */
  readonly url: string;
  /** Port of the server. */
  readonly port: number;
  /** Process id. */
  readonly pid: number;
  /** Stops the server cleanly, and resolves when its process has ended. Stopping again does nothing. */
  stop(): Promise<void>;
  /** Kills the server, as a power failure does. */
  kill(): Promise<void>;
}

/** Starts a server, and resolves when it accepts connections. It ends with this process or worker at the latest. */
export function startServer(options?: ServerOptions): Promise<Server>;
