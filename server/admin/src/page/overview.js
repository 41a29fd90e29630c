// Overview: health, charts of the last 15 minutes, and limits.
import { get, pause, untilAborted } from "./api.js";
import { chart } from "./chart.js";
import { element, isInUse, notice, raw, table } from "./dom.js";
import { CONNECTING, figures, onFigures, VERBS } from "./figures.js";
import { bytes, count, duration, micros, moment, quantity, rate } from "./format.js";

// From this share on, a limit is listed as nearly reached.
const NEAR = 0.9;
const LIMITS_MS = 10e3;

// Effects of the limits of the server.
const EFFECTS = {
  "max-bytes": "SETs that make the store larger are rejected. Delete keys, or raise the limit.",
  "max-keys": "SETs of new keys are rejected. Delete keys, or raise the limit.",
  "max-session-bytes": "The server evicts the sessions that hold the most. Find them under Clients, or raise the limit.",
  "max-sessions": "Sessions without a connection end to make room; then new clients are rejected.",
  "max-connections": "Additional connections are closed.",
  "max-watches": "Further watches of keys and patterns are rejected.",
  "max-request-rate": "The server pauses the client's connection.",
  "max-byte-rate": "The server pauses the client's connection.",
  // Quotas of users and prefixes.
  keys: "Its SETs of new keys are rejected. Delete keys, or raise the quota.",
  bytes: "Its SETs that need more memory are rejected. Delete keys, or raise the quota.",
};

export function showOverview(root, { signal }) {
  const health = element("div", { class: "panel" });
  const tiles = element("dl", { class: "tiles" });
  const history = notice();
  let limits = {};
  const limitOf = (name) => () => limits[name] ?? null;
  const line = (name, pick, more = {}) => ({ name, value: pick, ...more });
  const charts = [
    chart({ title: "Requests per second", format: quantity, series: VERBS.map((verb) => line(verb, (sample) => sample.requests[verb])) }),
    chart({ title: "Latency of requests", format: micros, series: [line("p50", (sample) => sample.p50_us), line("p99", (sample) => sample.p99_us)] }),
    chart({ title: "Connections and sessions", format: count, series: [
      line("connections", (sample) => sample.connections, { isAlways: true }), line("sessions", (sample) => sample.sessions, { isAlways: true }),
      line("connections, limit", limitOf("max-connections"), { isLimit: true })] }),
    chart({ title: "Memory", format: bytes, isBinary: true, series: [
      line("process", (sample) => sample.resident_bytes), line("entries", (sample) => sample.entry_bytes), line("clients", (sample) => sample.held_bytes),
      line("entries, limit", limitOf("max-bytes"), { isLimit: true }), line("clients, limit", limitOf("max-session-bytes"), { isLimit: true })] }),
    chart({ title: "Commits per second", format: quantity, series: [line("commits", (sample) => sample.commits)] }),
    chart({ title: "Sync of the log, p99", format: micros, series: [line("sync", (sample) => sample.sync_p99_us)] }),
    chart({ title: "Free disk space", format: bytes, isBinary: true, series: [line("free", (sample) => sample.disk_free)] }),
    chart({ title: "Rejections and failures per second", format: quantity, series: [
      line("rejected", (sample) => sample.refused, { isAlways: true }), line("failed requests", (sample) => sample.failed, { isAlways: true })] }),
  ];
  const limitsPart = element("div");
  root.append(
    element("section", { "aria-labelledby": "health-title" }, element("h2", { id: "health-title" }, "Health"), health, tiles),
    element("section", { "aria-labelledby": "charts-title" }, element("h2", { id: "charts-title" }, "Last 15 minutes"), history.node,
      element("p", { class: "hint" }, "Point at a chart, or use the arrow keys in it, to read a moment. Latencies are upper bounds."),
      element("div", { class: "charts" }, charts.map((it) => it.node))),
    element("section", { "aria-labelledby": "limits-title" }, element("h2", { id: "limits-title" }, "Limits"), limitsPart));

  onFigures(() => {
    history.say(figures.historyFailure ?? "", figures.historyFailure ? "missing" : "");
    if (!isInUse(health)) health.replaceChildren(...healthOf(figures));
    if (figures.status?.counts && !isInUse(tiles)) tiles.replaceChildren(...tilesOf(figures.status, figures.samples.at(-1)));
    for (const it of charts) it.draw(figures.samples);
  }, signal);
  untilAborted(signal, async () => {
    while (await showLimits(limitsPart, signal, (found) => { limits = found; })) await pause(LIMITS_MS, signal);
  });
}

function healthOf({ status, failure }) {
  if (failure) return [element("p", { class: failure === CONNECTING ? "hint" : "failed" }, failure)];
  const listed = (title, reasons, kind) => reasons.length > 0 && element("div", { class: kind }, element("h3", {}, title),
    element("ul", {}, reasons.map((reason) => element("li", {}, element("code", {}, reason.code), ` ${reason.text}`))));
  const parts = [
    status.reasons.length === 0 && element("p", { class: "done" }, "Ready for clients."),
    listed("Not ready", status.reasons, "failed"),
    listed("Warnings", status.warnings ?? [], "warned"),
    status.storage?.previous_run_crashed && element("p", { class: "warned" }, "The previous run crashed. Acknowledged changes are kept."),
  ];
  return parts.filter(Boolean);
}

function tilesOf(status, sample) {
  const { counts, storage, disk } = status;
  const total = sample && Object.values(sample.requests).reduce((sum, number) => sum + (number ?? 0), 0);
  const tiles = [
    ["Requests", rate(total)],
    ["p50, p99", sample ? `${micros(sample.p50_us)}, ${micros(sample.p99_us)}` : null],
    ["Keys", count(counts.keys)],
    ["Entries", bytes(counts.entry_bytes)],
    ["Connections", count(counts.connections)],
    ["Sessions", count(counts.sessions)],
    ["Watches", count(status.watches)],
    ["Notifications", rate(sample?.notifications)],
    ["CPU", sample?.cpu == null ? null : `${Math.round(sample.cpu * 100)} %`],
    ["Waiting for the disk", storage && bytes(storage.waiting_bytes)],
    ["Log, base", storage && `${bytes(storage.log_bytes)}, ${bytes(storage.base_bytes)}`],
    ["Merges", storage && (storage.is_merging ? "merging now" : `${count(storage.merges)}, last ${storage.merge_ms} ms`)],
    ["Disk free", disk && `${bytes(disk.free)} of ${bytes(disk.size)}`],
    ["Running", status.started_s == null ? null : element("span", { title: moment(status.started_s * 1e3) }, duration(status.now_ms - status.started_s * 1e3))],
  ];
  return tiles.filter(([, value]) => value != null).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
}

// ---- limits

function subjectOf(item) {
  if (!item.subject) return "the server";
  const [[kind, name]] = Object.entries(item.subject);
  return element("span", {}, `${kind} `, raw(name));
}

const amount = (item, number) => (item.unit === "bytes" ? bytes(number) : count(number));

function usage(item) {
  if (item.used == null || !item.limit) return "–";
  const share = item.used / item.limit;
  return element("span", { class: share >= 1 ? "failed" : share >= NEAR ? "warned" : "" },
    element("meter", { min: 0, max: 1, high: NEAR, value: Math.min(share, 1), "aria-label": `${item.name} used` }), ` ${Math.floor(share * 100)} %`);
}

// Returns whether the server has limits to show.
async function showLimits(root, signal, use) {
  try {
    const { items } = await get("/api/limits", signal);
    use(Object.fromEntries(items.filter((item) => !item.subject).map((item) => [item.name, item.limit])));
    const near = items.filter((item) => item.used != null && item.limit && item.used / item.limit >= NEAR);
    const rows = table("Limits and what uses them", [
      { title: "Limit", cell: (item) => element("code", {}, item.name) },
      { title: "For", cell: subjectOf },
      { title: "Used", cell: (item) => amount(item, item.used), isNumber: true },
      { title: "Maximum", cell: (item) => amount(item, item.limit), isNumber: true },
      { title: "Share", cell: usage, isNumber: true },
    ]);
    rows.set(items);
    root.replaceChildren(
      near.length === 0 ? element("p", { class: "done" }, "Nothing is near its limit.") : element("ul", { class: "warned" }, near.map((item) =>
        element("li", {}, element("code", {}, item.name), " of ", subjectOf(item), `: ${amount(item, item.used)} of ${amount(item, item.limit)}. ${EFFECTS[item.name] ?? ""}`))),
      rows.node);
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    const outcome = notice();
    outcome.fail(error);
    root.replaceChildren(outcome.node);
    return false;
  }
}
