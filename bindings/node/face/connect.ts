/** Making clients out of URLs, settings, or the environment. */
import type { Client as Declared, Settings } from "../index.js";
import * as args from "./arguments.js";
import { Client } from "./client.js";

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
const FLAGS = ["env", "cleanStart", "tls", "allowPlaintextCredentials"];
const TIMES = [
  "sessionExpiry",
  "keepAlive",
  "pingTimeout",
  "connectTimeout",
  "requestTimeout",
  "reconnectDelayMin",
  "reconnectDelayMax",
  "reconnectLimit",
];
const NUMBERS: Record<string, number> = {
  port: 65_535,
  maxInFlight: 2 ** 32 - 1,
  maxQueued: 2 ** 32 - 1,
  maxPacketBytes: 2 ** 32 - 1,
  maxBufferedBytes: Number.MAX_SAFE_INTEGER,
  maxValueBytes: Number.MAX_SAFE_INTEGER,
};
const KNOWN = new Set([...TEXTS, ...FLAGS, ...TIMES, ...Object.keys(NUMBERS), "password", "signal"]);

export async function connect(first: string | Settings, second?: Settings): Promise<Declared> {
  const from = typeof first === "string" ? { ...args.options(second, "settings"), url: first } : settings(first);
  // A setting with a typing error would be one that silently does nothing.
  for (const name of Object.keys(from)) {
    if (!KNOWN.has(name)) {
      throw new TypeError(`there is no setting ${name}`);
    }
  }
  return Client.connect(input(from), args.signal(from));
}

function settings(first: unknown): Record<string, unknown> {
  if (typeof first !== "object" || first === null || Array.isArray(first)) {
    throw new TypeError("url must be a string, or an object with settings");
  }
  return first as Record<string, unknown>;
}

/** What the native half takes. */
function input(from: Record<string, unknown>): object {
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
  for (const [name, most] of Object.entries(NUMBERS)) {
    input[name] = args.integer(from, name, most);
  }
  if (from.password !== undefined && from.password !== null) {
    input.password = args.data("password", from.password);
  }
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
}
