// Requests and keys that cost the most, and a sample of the requests.
import { events, get, pages, withQuery } from "./api.js";
import { tabs } from "./clients.js";
import { figures, onFigures, VERBS } from "./figures.js";
import { button, clientLink, element, filters, keyLink, notice, raw, table } from "./dom.js";
import { bytes, clock, count, duration, micros, moment, named, percentile, plural, rate } from "./format.js";
import { listAll } from "./locks.js";

const LISTS = [["#/load", "Verbs"], ["#/load/slow", "Slow requests"], ["#/load/hot", "Busy keys"], ["#/load/big", "Large keys"], ["#/load/ttl", "Next to expire"], ["#/load/monitor", "Monitor"]];
const MOST_KEYS = 20, MOST_LINES = 200;

export function showLoad(root, context) {
  const part = context.rest;
  root.append(tabs(LISTS, part ? `#/load/${part}` : "#/load"));
  const show = { "": showVerbs, slow: showSlow, hot: showHot, big: showBig, ttl: showTtl, monitor: showMonitor }[part];
  if (show) show(root, context);
  else root.append(element("p", { class: "failed" }, "The page has no such list."));
}

function showVerbs(root, { signal }) {
  const rows = table("Requests by verb", [
    { title: "Verb", cell: (it) => element("code", {}, it.verb) },
    { title: "Rate", cell: (it) => rate(it.rate), isNumber: true },
    { title: "Since the start", cell: (it) => count(it.total), isNumber: true },
    { title: "Not ok", cell: (it) => count(it.total - it.ok), isNumber: true },
    { title: "p50", cell: (it) => micros(it.p50), isNumber: true },
    { title: "p99", cell: (it) => micros(it.p99), isNumber: true },
  ]);
  root.append(element("p", { class: "hint" }, "Latencies are upper bounds since the start of the server; the result of a failed condition is not ok either."), rows.node);
  onFigures(() => {
    const { status, samples } = figures;
    if (!status?.requests) return;
    const known = VERBS.filter((verb) => verb in status.requests);
    const others = Object.keys(status.requests).filter((verb) => !VERBS.includes(verb));
    rows.set([...known, ...others].map((verb) => ({ verb, its: status.requests[verb] })).map(({ verb, its }) => ({
      verb, ...its, rate: samples.at(-1)?.requests[verb],
      p50: percentile(null, its.times.counts, status.time_bounds_us, 0.5), p99: percentile(null, its.times.counts, status.time_bounds_us, 0.99),
    })));
  }, signal);
}

const common = [
  { title: "Client", cell: (it) => clientLink(it.client) },
  { title: "User", cell: (it) => raw(it.user) },
  { title: "Verb", cell: (it) => element("code", {}, String(it.verb).toLowerCase()) },
  { title: "Key", cell: (it) => (it.key?.hex !== undefined ? keyLink(it.key) : raw(it.key)) },
  { title: "Duration", cell: (it) => micros(it.duration_us), isNumber: true },
];

function showSlow(root, { signal }) {
  const progress = notice();
  const rows = table("Slow requests", [{ title: "Time", cell: (it) => moment(it.at_ms) }, ...common]);
  root.append(progress.node, rows.node);
  listAll(rows, "/api/slowlog", "request", progress, signal);
}

function showHot(root, { signal }) {
  const progress = notice();
  const rows = table("Keys with the most requests in the last minutes, from a sample", [
    { title: "Key", cell: (it) => keyLink(it.key) },
    { title: "Requests", cell: (it) => count(it.requests), isNumber: true },
  ]);
  root.append(progress.node, rows.node);
  get("/api/hotkeys", signal).then(
    ({ items }) => { rows.set(items); progress.say(plural(items.length, "key")); },
    (error) => signal.aborted || progress.fail(error));
}

// Follows the pages of a walk and keeps the first items by `compare`.
async function showTop(root, path, rows, compare, signal) {
  const progress = notice();
  let isStopped = false;
  const stop = button("Stop", () => { isStopped = true; });
  root.append(element("div", { class: "progress" }, progress.node, stop), rows.node);
  let top = [], walked = 0;
  try {
    for await (const page of pages(path, signal)) {
      walked += 1;
      top = [...top, ...page.items].sort(compare).slice(0, MOST_KEYS);
      rows.set(top);
      progress.say(`${plural(walked, "page")} of keys read${page.next == null ? "" : " so far"}`, page.next == null ? "done" : "");
      if (isStopped) break;
    }
  } catch (error) {
    if (!signal.aborted) progress.fail(error);
  }
  stop.hidden = true;
}

function showBig(root, { signal }) {
  const rows = table(`The ${MOST_KEYS} largest values`, [
    { title: "Key", cell: (it) => keyLink(it.key) },
    { title: "Size", cell: (it) => bytes(it.value_bytes), isNumber: true },
  ]);
  showTop(root, "/api/bigkeys", rows, (left, right) => right.value_bytes - left.value_bytes, signal);
}

function showTtl(root, { signal }) {
  const rows = table(`The ${MOST_KEYS} keys that expire next`, [
    { title: "Key", cell: (it) => keyLink(it.key) },
    { title: "Time left", cell: (it) => duration(it.expires_in_ms), isNumber: true },
  ]);
  showTop(root, "/api/ttl", rows, (left, right) => left.expires_in_ms - right.expires_in_ms, signal);
}

// ---- monitor

function showMonitor(root, { query, go, signal }) {
  const wanted = Object.fromEntries(["verb", "client", "user", "key", "sample", "values"].map((name) => [name, query.get(name) ?? ""]));
  const progress = notice();
  const rows = table("Sampled requests, newest first", [
    { title: "Time", cell: (it) => clock(it.at_ms) },
    ...common,
    { title: "Size", cell: (it) => bytes(it.value_bytes), isNumber: true },
    { title: "Result", cell: (it) => raw(it.result) },
    ...(wanted.values ? [{ title: "Value", cell: (it) => raw(it.value?.hex === undefined ? it.value : named(it.value).slice(0, 200)) }] : []),
  ]);
  let running = null, lines = 0, leftOut = 0;
  const toggle = button("Start", () => (running ? stop() : start()), { "data-shortcut": "p" });

  function stop() {
    running.abort();
    running = null;
    toggle.textContent = "Start";
    progress.say(`stopped after ${plural(lines, "request")}`);
  }

  async function start() {
    const own = (running = new AbortController());
    const both = AbortSignal.any([signal, own.signal]);
    toggle.textContent = "Stop";
    progress.say("waiting for requests", "done");
    try {
      for await (const line of events(withQuery("/api/monitor", wanted), both)) {
        if (line.left_out) {
          leftOut += line.left_out;
        } else {
          lines += 1;
          rows.prepend(line, MOST_LINES);
        }
        progress.say(`${plural(lines, "request")}${leftOut > 0 ? `, ${count(leftOut)} left out since the page is slow` : ""}`, "done");
      }
      progress.say("the server ended the stream", "failed");
    } catch (error) {
      if (both.aborted) return;
      progress.fail(error);
    }
    running = null;
    toggle.textContent = "Start";
  }

  root.append(
    filters("Monitor", [
      { name: "verb", title: "Verb", value: wanted.verb, choices: [["", "all"], ...VERBS.map((verb) => [verb, verb])] },
      { name: "client", title: "Client", value: wanted.client },
      { name: "user", title: "User", value: wanted.user },
      { name: "key", title: "Pattern of keys", value: wanted.key },
      { name: "sample", title: "Share of requests", value: wanted.sample, choices: [["", "all"], ["0.1", "1 in 10"], ["0.01", "1 in 100"]] },
      { name: "values", title: "Values", value: wanted.values, choices: [["", "not shown"], ["1", "shown"]] },
    ], (values) => go(withQuery("#/load/monitor", values)), "Use"),
    element("div", { class: "progress" }, toggle, progress.node), rows.node);
}
