/** Making clients out of URLs, settings, or the environment. */
import { URL } from "node:url";
import type { Client as Declared, Settings } from "../index.js";
import * as args from "./arguments.js";
import { Client, open, type ServerAddress } from "./client.js";
import { known } from "./known.js";
import { isUrl } from "./realm.js";

const TEXTS = [
  "url",
  "host",
  "clientId",
  "userName",
  "passwordFile",
  "satFile",
  "caFile",
  "certFile",
  "keyFile",
  "keyPasswordFile",
  "serverName",
];
const FLAGS = ["env", "cleanStart", "tls", "allowPlaintextCredentials", "failFast", "lazy"];
const TIMES = [
  "sessionExpiry",
  "keepAlive",
  "pingTimeout",
  "connectTimeout",
  "requestTimeout",
  "reconnectDelayMin",
  "reconnectDelayMax",
];
const LIMITS = ["connectLimit", "reconnectLimit"];
const NUMBERS: Record<string, number> = {
  port: 65_535,
  maxInFlight: 2 ** 32 - 1,
  maxQueued: 2 ** 32 - 1,
  maxPacketBytes: 2 ** 32 - 1,
  maxBufferedBytes: Number.MAX_SAFE_INTEGER,
  maxValueBytes: Number.MAX_SAFE_INTEGER,
};
/** Secrets and certificates, as text or bytes. */
const BYTES = ["password", "caPem", "certPem", "keyPem"];
const KNOWN = [...TEXTS, ...FLAGS, ...TIMES, ...LIMITS, ...Object.keys(NUMBERS), ...BYTES, "encoding", "callStacks", "signal"];
/** Ports of URLs without one. */
const DEFAULT_PORTS: Record<string, number> = { "mqtt:": 1883, "mqtts:": 8883, "ws:": 80, "wss:": 443 };
/** Text is UTF-8 on the way in, and so on the way out. */
const ENCODINGS = ["utf8", "utf-8"];

export async function connect(first: string | URL | Settings, second?: Settings): Promise<Declared> {
  const from = merged(first, second);
  known(from, KNOWN, (unknown) => `there is no setting ${unknown}`);
  const encoding = args.text(from, "encoding");
  if (encoding !== undefined && !ENCODINGS.includes(encoding)) {
    throw args.badValue("encoding", "must be utf8, or not given", encoding);
  }
  const conduct = { asText: encoding !== undefined, callStacks: args.flag(from, "callStacks") ?? false };
  const settings = input(from);
  return Client[open](settings, conduct, args.signal(from), serverOf(settings));
}

/** The address of the only broker in settings; `undefined` if there are several, or none can be read. */
function serverOf(settings: Record<string, unknown>): ServerAddress | undefined {
  const { url, host, port, tls } = settings;
  if (typeof url === "string") {
    return serverOfUrl(url);
  }
  const name = settings.env === true ? process.env.AIO_BROKER_HOSTNAME : (host as string | undefined);
  if (name === undefined || name === "" || name.includes(",")) {
    return undefined;
  }
  if (settings.env === true) {
    return { address: name, port: Number(process.env.AIO_BROKER_TCP_PORT || DEFAULT_PORTS["mqtts:"]) };
  }
  return { address: name, port: (port as number | undefined) ?? (DEFAULT_PORTS[tls === true ? "mqtts:" : "mqtt:"] as number) };
}

function serverOfUrl(text: string): ServerAddress | undefined {
  // A URL with several brokers cannot be parsed in this way, or has a host name with a comma.
  if (!URL.canParse(text)) {
    return undefined;
  }
  const { protocol, hostname, pathname, port } = new URL(text);
  if (protocol === "unix:") {
    return { address: pathname };
  }
  const number = port === "" ? DEFAULT_PORTS[protocol] : Number(port);
  if (hostname === "" || hostname.includes(",") || number === undefined) {
    return undefined;
  }
  return { address: hostname.replace(/^\[|\]$/g, ""), port: number };
}

function merged(first: unknown, second: unknown): Record<string, unknown> {
  const url = isUrl(first) ? first.href : first;
  if (typeof url === "string") {
    return { ...args.members("settings", second), url };
  }
  if (typeof url !== "object" || url === null || Array.isArray(url) || second !== undefined) {
    throw args.wrongType("url", "a string, a URL, or an object with settings that nothing follows", url);
  }
  const from = args.members("url", url);
  return isUrl(from.url) ? { ...from, url: from.url.href } : from;
}

/** The settings in the form of the native half. */
function input(from: Record<string, unknown>): Record<string, unknown> {
  const input: Record<string, unknown> = {};
  for (const name of TEXTS) {
    input[name] = args.text(from, name);
  }
  for (const name of FLAGS) {
    input[name] = args.flag(from, name);
  }
  for (const name of TIMES) {
    input[name] = args.time(from, name);
  }
  for (const name of LIMITS) {
    input[name] = args.limit(from, name);
  }
  for (const [name, max] of Object.entries(NUMBERS)) {
    input[name] = args.integer(from, name, max);
  }
  for (const name of BYTES) {
    if (from[name] !== undefined && from[name] !== null) {
      input[name] = args.data(name, from[name]);
    }
  }
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
}
