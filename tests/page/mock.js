// The HTTP API with a few keys and clients in memory, for the page.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname } from "node:path";

export const TOKEN = "a-token-for-the-tests";
export const USER = "<script>window.hacked=1</script>";
export const EVIL = '<img src=x onerror="window.hacked=1"><svg onload="window.hacked=1">';

const ADMIN = new URL("../../server/admin/src/", import.meta.url);
const TYPES = { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html" };
// The policy of the server.
const POLICY = /POLICY: &str = "([^"]*)"/.exec(readFileSync(new URL("reply.rs", ADMIN), "utf8"))[1].replace(/\\\s+/g, "");
const VERBS = ["set", "get", "mget", "del", "vdel", "keynotify", "scan", "txn", "caps", "invalid"];
const BOUNDS = [100, 250, 500, 1000, 2500, 5000, 10000];

export const bytesOf = (text) => ({ hex: Buffer.from(text).toString("hex"), text });
const keyOf = (hex) => ({ hex, text: isText(hex) ? Buffer.from(hex, "hex").toString() : null });
const isText = (hex) => Buffer.from(Buffer.from(hex, "hex").toString()).toString("hex") === hex;

export class Mock {
  // Paths that the server lacks.
  missing = new Set();
  // Bodies of changes, by path.
  changes = [];
  // Items of a page of prefixes.
  prefixPage = 200;
  entries = new Map();
  #streams = new Map([["/events", new Set()], ["/api/monitor", new Set()]]);
  #clock = 1;
  #total = 100;

  // `strange` is what some clients send as their names.
  static async start(strange = EVIL) {
    const mock = new Mock();
    mock.strange = strange;
    mock.server = createServer((request, response) => mock.#answer(request, response));
    await new Promise((done) => mock.server.listen(0, "127.0.0.1", done));
    mock.origin = `http://127.0.0.1:${mock.server.address().port}`;
    mock.ticks = setInterval(() => mock.#send("/events", mock.#status()), 200);
    return mock;
  }

  async stop() {
    clearInterval(this.ticks);
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  // Sets a key as a client would.
  set(key, value, more = {}) {
    const hex = Buffer.from(key).toString("hex");
    const entry = { value: Buffer.from(value), version: `v${(this.#clock += 1)}`, changed_ms: Date.now() - 60e3, expires_in_ms: null, fence: null, ...more };
    this.entries.set(hex, entry);
    return entry;
  }

  #send(path, document) {
    for (const response of this.#streams.get(path)) response.write(`data: ${JSON.stringify(document)}\n\n`);
  }

  monitor(line) {
    this.#send("/api/monitor", line);
  }

  viewers(path) {
    return this.#streams.get(path).size;
  }

  // Waits for a viewer of a stream.
  async viewer(path) {
    while (this.#streams.get(path).size === 0) await new Promise((done) => this.server.once("stream", done));
  }

  #status() {
    this.#total += 10;
    const times = { counts: [0.9, 0.07, 0.025, 0.005, 0, 0, 0, 0].map((share) => share * this.#total), sum_us: 1 };
    return {
      now_ms: Date.now(), version: "1.2.3", started_s: 1_700_000_000, reasons: [], is_open: false, has_token: true, watches: 3,
      warnings: [{ code: "clock_suspect", text: "timestamps of clients are behind" }],
      counts: { keys: this.entries.size, entry_bytes: 12e6, connections: 23, sessions: 30, held_bytes: 5e6, notifications: this.#total, messages: 1, refused: 2 },
      requests: Object.fromEntries(VERBS.map((verb, index) => [verb, { total: index < 3 ? this.#total * (index + 1) : 0, ok: index < 3 ? this.#total * (index + 1) - 1 : 0, times }])),
      time_bounds_us: BOUNDS,
      storage: { commits: this.#total, writes: 9, syncs: times, written_bytes: 1e6, waiting_bytes: 0, log_bytes: 4e6, base_bytes: 9e6, is_merging: false, merges: 2, failed_merges: 0, merge_ms: 40, previous_run_crashed: true },
      disk: { free: 5e9, size: 9e9 }, process: { cpu_s: this.#total / 1000, resident_bytes: 80e6, open_fds: 30, max_fds: 1024 },
      engine: { kind: "etcd", members: [{ name: "etcd-1", is_reachable: true, revision: 812 }, { name: this.strange, is_reachable: false }], reversions: 1 },
    };
  }

  #history() {
    const samples = Array.from({ length: 180 }, (_, index) => ({
      at_ms: Date.now() - (180 - index) * 5000, requests: { set: 250 + 40 * Math.sin(index / 9), get: 500 + 90 * Math.sin(index / 23), mget: 750 + 60 * Math.sin(index / 5) }, failed: index % 40 === 0 ? 5 : 0,
      p50_us: 100, p99_us: index % 50 === 0 ? null : index % 13 === 0 ? 1000 : 500, connections: 20 + (index % 7), sessions: 30, entry_bytes: 10e6 + index * 1.1e4, held_bytes: 5e6,
      resident_bytes: 80e6, commits: 250, sync_p99_us: 500, disk_free: 5.18e9 - index * 1e6, refused: 0, notifications: 250,
    }));
    return { interval_s: 5, samples };
  }

  #details(hex) {
    const { value, version, changed_ms, expires_in_ms, fence } = this.entries.get(hex);
    return { key: keyOf(hex), value_bytes: value.length, version, changed_ms, expires_in_ms, fence };
  }

  #prefixes(query) {
    const prefix = query.prefix ?? "", delimiter = query.delimiter ?? "/", from = Number(query.cursor ?? 0);
    const keys = [...this.entries.keys()].filter((hex) => Buffer.from(hex, "hex").toString().startsWith(prefix)).sort();
    const items = new Map();
    for (const hex of keys.slice(from, from + this.prefixPage)) {
      const tail = Buffer.from(hex, "hex").toString().slice(prefix.length);
      const end = tail.indexOf(delimiter);
      const folder = end < 0 ? null : prefix + tail.slice(0, end + delimiter.length);
      const item = folder === null ? this.#details(hex) : items.get(folder) ?? { prefix: bytesOf(folder), keys: 0, value_bytes: 0 };
      if (folder !== null) {
        item.keys += 1;
        item.value_bytes += this.entries.get(hex).value.length;
      }
      items.set(folder ?? hex, item);
    }
    return { items: [...items.values()], next: from + this.prefixPage < keys.length ? String(from + this.prefixPage) : null };
  }

  #entry(text) {
    const hex = Buffer.from(text, "latin1").toString("hex");
    const entry = this.entries.get(hex);
    const document = { key: keyOf(hex), watchers: [this.strange] };
    if (!entry) return document;
    const shown = entry.value.subarray(0, 65536).toString("hex");
    const { key, ...facts } = this.#details(hex);
    return { ...document, holder: entry.holder, entry: { ...facts, is_truncated: entry.value.length > 65536, value: keyOf(shown) } };
  }

  #locks() {
    const held = [...this.entries].filter(([, entry]) => entry.holder);
    return { items: held.map(([hex, entry]) => ({ ...this.#details(hex), holder: entry.holder, client: entry.holder, has_session: false, since_ms: Date.now() - 90e3, renewed_ms: Date.now(), waiters: 2 })), next: null };
  }

  // 250 sessions, 200 on a page.
  #sessions(first) {
    const session = (number) => ({ client: `gateway-${number + 1}`, user: "line1", is_connected: true, subscriptions: 4, held_bytes: 100, expiry_s: 4294967295 });
    const items = Array.from({ length: first === 0 ? 200 : 50 }, (_, index) => session(first + index));
    return { items, next: first === 0 ? "200" : null };
  }

  #lists(path, query) {
    const connections = [
      { client: this.strange, user: USER, peer: "192.0.2.7:5000", listener: "tls://0.0.0.0:8883", protocol: "tls", since_ms: Date.now() - 9e6, requests: 900, requests_per_s: 12.5, outstanding_bytes: 0, held_bytes: 4096 },
      { client: "gateway-1", user: "line1", peer: "192.0.2.8:5001", listener: "tcp://127.0.0.1:1883", protocol: "tcp", since_ms: Date.now() - 9e5, requests: 10, requests_per_s: null, outstanding_bytes: 10, held_bytes: 2048 },
    ];
    const audit = [{ at_ms: Date.now(), level: "info", event: "connected", fields: { client: this.strange, user: "line1", peer: "192.0.2.7:5000" } }];
    const refusals = ["quota", "login"].map((cause) => ({ at_ms: Date.now(), first_ms: Date.now() - 1e5, count: 3, peer: "192.0.2.9:1", client: this.strange, user: null, cause, why: `the ${cause} was checked`, key: bytesOf("line1/temperature") }));
    return {
      "/api/connections": () => ({ items: connections.filter((it) => !query.user || it.user === query.user), next: null }),
      "/api/sessions": () => this.#sessions(Number(query.cursor ?? 0)),
      "/api/client": () => ({ client: query.client, connection: connections[1], session: { subscriptions: 4, expiry_s: 3600 }, subscriptions: ["state/#", this.strange], watches: [bytesOf("line1/temperature")], patterns: [], tls: { version: "TLS 1.3", subject: "CN=gateway-1" } }),
      "/api/refusals": () => ({ items: refusals.filter((it) => !query.cause || it.cause === query.cause) }),
      "/api/audit": () => ({ items: audit, next: null }),
      "/api/slowlog": () => ({ items: [{ at_ms: Date.now(), client: "gateway-1", user: "line1", verb: "SET", key: bytesOf(this.strange), duration_us: 22000 }], next: null }),
      "/api/hotkeys": () => ({ items: [{ key: bytesOf("line1/temperature"), requests: 6400 }] }),
      "/api/bigkeys": () => ({ items: [{ key: bytesOf("large"), value_bytes: 9e6 + Number(query.cursor ?? 0) }], next: query.cursor ? null : "1" }),
      "/api/ttl": () => ({ items: [{ key: bytesOf("nightly"), expires_in_ms: 4000 }], next: null }),
      "/api/config": () => ({ options: [{ name: "max-bytes", value: "16MiB", source: "file", needs_restart: true }, { name: "users-file", value: "/etc/users", source: "argument", needs_restart: false }] }),
      "/api/limits": () => ({ items: [
        { name: "max-bytes", limit: 16e6, used: 15.5e6, unit: "bytes", subject: null }, { name: "max-connections", limit: 1000, used: 2, unit: "count", subject: null },
        { name: "keys", limit: 100, used: 100, unit: "count", subject: { user: this.strange } }] }),
      "/api/log": () => ({ filter: "info" }),
      "/api/status": () => this.#status(),
      "/api/history": () => this.#history(),
      "/api/prefixes": () => this.#prefixes(query),
      "/api/locks": () => this.#locks(),
      "/api/keys": () => ({ items: [...this.entries.keys()].filter((hex) => matches(query.match, keyOf(hex).text)).map((hex) => this.#details(hex)), next: null }),
      "/api/key": () => this.#entry(query.key),
    }[path];
  }

  #change(path, body) {
    const entry = this.entries.get(body.hex);
    if (body.if_version !== undefined && body.if_version !== (entry?.version ?? "absent")) {
      return [409, { error: "the condition is not met", version: entry?.version ?? null }];
    }
    const key = Buffer.from(body.hex ?? "", "hex").toString("latin1");
    const set = (value, expires_in_ms) => ({ version: this.set(Buffer.from(key, "latin1"), value, { expires_in_ms }).version });
    return {
      "/api/set": () => [200, set(Buffer.from(body.value ?? body.value_hex, body.value_hex ? "hex" : "utf8"), body.expires_in_ms ?? null)],
      "/api/expire": () => [200, set(entry.value, body.expires_in_ms)],
      "/api/delete": () => [200, { deleted: Number(this.entries.delete(body.hex)) }],
      "/api/unlock": () => (entry?.holder === body.holder ? [200, { released: this.entries.delete(body.hex) }] : [409, { error: "another client holds it" }]),
      "/api/disconnect": () => [200, { disconnected: 1 }],
      "/api/policy/check": () => [200, { allowed: body.action === "read", rule: body.action === "read" ? "rule 3" : null }],
      "/api/drain": () => [200, { draining: body.on, connections: 2 }],
      "/api/reload": () => [200, { users: 1, disconnected: 0, needs_restart: [] }],
      "/api/backup": () => [200, { backup: true }],
      "/api/log": () => [200, { filter: body.filter }],
    }[path]?.();
  }

  #answer(request, response) {
    const url = new URL(request.url, this.origin);
    const send = (status, type, body) => {
      response.writeHead(status, { "content-type": type, "content-security-policy": POLICY, "cache-control": "no-store" });
      response.end(body);
    };
    const json = (status, document) => send(status, "application/json", JSON.stringify(document));
    const path = url.pathname;
    const name = path === "/" ? "page.html" : path.slice(1);
    if (TYPES[extname(name)] && !path.startsWith("/api/")) {
      try {
        return send(200, `${TYPES[extname(name)]}; charset=utf-8`, readFileSync(new URL(`page/${name}`, ADMIN)));
      } catch {
        return send(404, "text/plain", "there is nothing here\n");
      }
    }
    if (this.missing.has(path)) return send(404, "text/plain", "there is nothing here\n");
    const isAllowed = request.headers.authorization === `Bearer ${TOKEN}`;
    if (request.headers.authorization && !isAllowed) return send(401, "text/plain", "this is not the token\n");
    if (!isAllowed && !["/events", "/api/status", "/api/history", "/api/limits"].includes(path)) return send(401, "text/plain", "this needs the token\n");
    if (this.#streams.has(path)) {
      response.writeHead(200, { "content-type": "text/event-stream", "content-security-policy": POLICY });
      response.flushHeaders();
      this.#streams.get(path).add(response);
      response.on("close", () => {
        this.#streams.get(path).delete(response);
        this.server.emit("left");
      });
      this.server.emit("stream");
      return undefined;
    }
    if (request.method === "POST") {
      let body = "";
      request.on("data", (part) => { body += part; });
      request.on("end", () => {
        const document = JSON.parse(body);
        this.changes.push({ path, ...document });
        const answer = this.#change(path, document);
        if (answer) json(...answer);
        else send(404, "text/plain", "there is nothing here\n");
      });
      return undefined;
    }
    // Keys are any bytes.
    const query = Object.fromEntries(url.search.slice(1).split("&").filter(Boolean).map((pair) => pair.split("=")).map(([key, value]) =>
      [key, key === "key" ? Buffer.from(unescape(value), "latin1").toString("latin1") : decodeURIComponent(value)]));
    const list = this.#lists(path, query);
    return list ? json(200, list()) : send(404, "text/plain", "there is nothing here\n");
  }
}

// A pattern with * alone, and with escaped characters.
const matches = (pattern, text) => new RegExp(`^${pattern.replace(/\\(.)|\*|[.+?^${}()|[\]]/g, (found, escaped) => (found === "*" ? ".*" : `\\${escaped ?? found}`))}$`, "s").test(text ?? "");
