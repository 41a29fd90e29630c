// The figures of the last 15 minutes: /api/history, then /events.
import { MissingPath, Rejection, events, get, pause } from "./api.js";
import { percentile } from "./format.js";
import { SPAN_MS } from "./chart.js";

export const VERBS = ["set", "get", "mget", "del", "vdel", "keynotify", "scan", "txn", "caps", "invalid"];

export const CONNECTING = "connecting";

// `status` is the last document, `samples` are ordered by time, `failure` says why there are none.
export const figures = { status: null, samples: [], failure: CONNECTING, historyFailure: null };
const viewers = new Set();

// Calls `view` at every change until the signal aborts.
export function onFigures(view, signal) {
  viewers.add(view);
  signal.addEventListener("abort", () => viewers.delete(view));
  view();
}

const notify = () => viewers.forEach((view) => view());

function fromHistory(sample, seconds) {
  const perSecond = (number) => (number == null ? null : number / seconds);
  return {
    ...sample,
    at: sample.at_ms,
    requests: Object.fromEntries(Object.entries(sample.requests ?? {}).map(([verb, number]) => [verb, perSecond(number)])),
    failed: perSecond(sample.failed), commits: perSecond(sample.commits), refused: perSecond(sample.refused),
    notifications: perSecond(sample.notifications),
  };
}

function fromStatus(before, now) {
  const seconds = Math.max(now.now_ms - before.now_ms, 1) / 1e3;
  const perSecond = (pick) => {
    const [earlier, later] = [pick(before), pick(now)];
    return earlier == null || later == null ? null : Math.max(later - earlier, 0) / seconds;
  };
  const verbs = Object.keys(now.requests);
  const sum = (earlier, later) => later.map((number, range) => number - (earlier?.[range] ?? 0));
  const counts = verbs.map((verb) => sum(before.requests[verb]?.times.counts, now.requests[verb].times.counts));
  const all = counts.reduce((left, right) => left.map((number, range) => number + right[range]));
  const of = (share) => percentile(null, all, now.time_bounds_us, share);
  return {
    at: now.now_ms,
    requests: Object.fromEntries(verbs.map((verb) => [verb, perSecond((it) => it.requests[verb]?.total)])),
    failed: perSecond((it) => verbs.reduce((total, verb) => total + it.requests[verb].total - it.requests[verb].ok, 0)),
    p50_us: of(0.5), p99_us: of(0.99),
    connections: now.counts.connections, sessions: now.counts.sessions,
    entry_bytes: now.counts.entry_bytes, held_bytes: now.counts.held_bytes, resident_bytes: now.process?.resident_bytes,
    commits: perSecond((it) => it.storage?.commits),
    sync_p99_us: now.storage && before.storage ? percentile(before.storage.syncs.counts, now.storage.syncs.counts, now.time_bounds_us, 0.99) : null,
    disk_free: now.disk?.free, refused: perSecond((it) => it.counts.refused), notifications: perSecond((it) => it.counts.notifications),
    cpu: perSecond((it) => it.process?.cpu_s),
  };
}

function take(now) {
  const before = figures.status;
  figures.status = now;
  figures.failure = null;
  const isSame = before?.counts && now.counts && before.started_s === now.started_s;
  if (before && before.started_s !== now.started_s) figures.samples = [];
  if (isSame && now.now_ms > before.now_ms) {
    figures.samples = [...figures.samples.filter((sample) => sample.at > now.now_ms - SPAN_MS), fromStatus(before, now)];
  }
  notify();
}

async function readHistory(signal) {
  try {
    const { interval_s, samples } = await get("/api/history", signal);
    const past = samples.map((sample) => fromHistory(sample, interval_s));
    const last = past.at(-1)?.at ?? 0;
    figures.samples = [...past, ...figures.samples.filter((sample) => sample.at > last)];
    figures.historyFailure = null;
  } catch (error) {
    if (signal.aborted) throw error;
    figures.historyFailure = error instanceof MissingPath ? `${error.message}. The charts begin when this page is opened.` : error.message;
  }
}

let watching = null;

// A hidden page leaves its connection to others: a browser has six to a server. The history fills the gap.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) watching?.abort();
  else watchFigures();
});

// Begins again, with the present token.
export async function watchFigures() {
  watching?.abort();
  const { signal } = (watching = new AbortController());
  Object.assign(figures, { status: null, failure: CONNECTING });
  notify();
  while (!signal.aborted) {
    try {
      await readHistory(signal);
      notify();
      for await (const status of events("/events", signal)) take(status);
      throw new Error("the server closed the connection");
    } catch (error) {
      if (signal.aborted) return;
      figures.failure = `no figures: ${error.message}`;
      notify();
      // The same token would be rejected again, and each rejection is in the audit trail.
      if (error instanceof Rejection && [401, 403].includes(error.status)) return;
      await pause(2000, signal).catch(() => {});
    }
  }
}
