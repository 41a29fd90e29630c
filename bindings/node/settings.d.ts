/** Settings of a client, and types that all of its calls share. */
import type { CancelledError, QueueFullError } from "./errors.js";
import type { Client, connect } from "./index.js";

/** Bytes; a string is sent as UTF-8. */
export type Data = string | Uint8Array;

/** Bytes from the store: `Buffer`, or `string` if the client was connected with an `encoding`. */
export type Bytes = Buffer | string;

/** The options of every call. */
export interface CallOptions {
  /**
   * Gives the call up: it rejects with {@link CancelledError}, whose `cause` is the signal's reason and whose `outcome` says
   * whether the store may have carried it out.
   */
  signal?: AbortSignal | undefined;
}

/** The options of calls that wait for the store. */
export interface TimeoutOptions extends CallOptions {
  /** Time limit of the call (default: `requestTimeout` of the connection). `Infinity` is no limit. */
  timeout?: number | undefined;
}

/** Settings of a connection; see docs/connecting.md. */
export interface Settings {
  /** `mqtt://[USER[:PASSWORD]@]HOST[:PORT]`, `mqtts://…`, `ws://…`, `wss://…` or `unix:///PATH`, with parameters behind `?`. */
  url?: string | URL | undefined;
  /** Reads the environment variables that pods of Azure IoT Operations have. */
  env?: boolean | undefined;
  /** In place of a URL: a name or an address. */
  host?: string | undefined;
  /** 1883, or 8883 with `tls`, unless given. */
  port?: number | undefined;
  /** A random one unless given. */
  clientId?: string | undefined;
  /** Whether the first connection ends a session that the broker still has for this client id (default: true). */
  cleanStart?: boolean | undefined;
  /** Time for which the broker keeps the session without a connection, in whole seconds (default: 1 h). */
  sessionExpiry?: number | undefined;
  /** Silence after which the connection is checked, in whole seconds; 0 is never (default: 60 s). */
  keepAlive?: number | undefined;
  /** Time limit of such a check (default: 10 s). */
  pingTimeout?: number | undefined;
  /** Time limit of an attempt to connect (default: 10 s). */
  connectTimeout?: number | undefined;
  /** Time for which the first connection is retried before {@link connect} rejects; `Infinity` has no end (default: 0, not at all). */
  connectLimit?: number | undefined;
  /** Time limit of calls without a `timeout` (default: 10 s). */
  requestTimeout?: number | undefined;
  /**
   * Whether a call that begins while the connection is lost rejects at once with {@link UnreachableError}, not executed; `false` unless
   * given: it waits for the connection until its time-out.
   */
  failFast?: boolean | undefined;
  /**
   * Whether {@link connect} resolves at once, with a client that connects in the background; `false` unless given. Calls wait for the
   * connection until their time-out; with `failFast` they reject at once after the first failed attempt. {@link Client.state} shows failures.
   * The default of `connectLimit` is `Infinity` then; after a limit the client is `closed`.
   */
  lazy?: boolean | undefined;
  /** Maximum number of sent requests without a response; further ones queue (default: 65,536). */
  maxInFlight?: number | undefined;
  /** Maximum number of queued requests; further ones fail with {@link QueueFullError} (default: 65,536). */
  maxQueued?: number | undefined;
  /** Maximum size of the requests that the broker has not acknowledged, in bytes; further ones queue (default: 64 MiB). */
  maxBufferedBytes?: number | undefined;
  /** Maximum size of a packet from the broker, in bytes (default: 256 MiB). */
  maxPacketBytes?: number | undefined;
  /** Maximum size of a value that is sent, in bytes (default: 256 MiB). */
  maxValueBytes?: number | undefined;
  /** Lower bound of the delay between attempts to reconnect (default: 100 ms). */
  reconnectDelayMin?: number | undefined;
  /** Upper bound of that delay (default: 30 s). */
  reconnectDelayMax?: number | undefined;
  /** Time for which a lost connection is retried (default: `Infinity`, without an end). */
  reconnectLimit?: number | undefined;
  /** The user name. */
  userName?: string | undefined;
  /** The password, as any bytes. */
  password?: Data | undefined;
  /** File that holds the password; read again for each connection, as the files of the certificates and keys are. */
  passwordFile?: string | undefined;
  /** File that holds a Kubernetes service account token; watched for changes. */
  satFile?: string | undefined;
  /** Whether credentials may be sent over plain TCP, where every machine on the way can read them; `false` by default. */
  allowPlaintextCredentials?: boolean | undefined;
  /** Whether the connection uses TLS; as the URL or the environment says by default. */
  tls?: boolean | undefined;
  /** File with the certificates of the authorities that may have signed the broker's, as PEM; those of the system by default. */
  caFile?: string | undefined;
  /** File with the client's certificate, as PEM. */
  certFile?: string | undefined;
  /** File with the private key of that certificate, as PEM. */
  keyFile?: string | undefined;
  /** File that holds the password of the key. */
  keyPasswordFile?: string | undefined;
  /** The certificates of the authorities as PEM, in place of `caFile`. */
  caPem?: Data | undefined;
  /** The client's certificate as PEM, in place of `certFile`; not read again. */
  certPem?: Data | undefined;
  /** The private key of that certificate as PEM, in place of `keyFile`. `keyPasswordFile` applies to it as well. */
  keyPem?: Data | undefined;
  /** Name that the broker's certificate must have (default: the host name). */
  serverName?: string | undefined;
  /**
   * Whether the stack of each error names the line of its call, also of one that is not awaited; `false` unless given. Each call then
   * takes about twice the processor time. The stacks of calls that are awaited name it anyway.
   */
  callStacks?: boolean | undefined;
}

/** A setting that changes what comes out: keys, values and names are `string` then instead of `Buffer`. */
export interface Encoding {
  /**
   * The only encoding that there is, since strings are UTF-8 on the way in. Other bytes are a `TypeError` that has them in
   * `bytes`; the next items follow.
   */
  encoding: "utf8" | "utf-8";
}
