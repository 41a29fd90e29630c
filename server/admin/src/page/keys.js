// Keys: the tree of prefixes, patterns, and an exact key.
import { get, MissingPath, pages, withQuery } from "./api.js";
import { button, element, filters, keyLink, notice, prefixLink, raw, table } from "./dom.js";
import { ago, bytes, count, duration, escapedPattern, hexOf, isHex, named, percentEncoded, plural, visibleLine } from "./format.js";
import { follow, keepSeen } from "./live.js";

const MOST_ROWS = 200;
const MOST_CHANGES = 200;

export function showKeys(root, { rest, query, go, signal }) {
  const delimiter = query.get("delimiter") || "/";
  const match = query.get("match");
  const prefix = prefixOf(rest, query);
  root.append(
    searchForm(match ?? (prefix.text ?? `0x${prefix.hex}`), delimiter, go),
    match === null ? trail(prefix, delimiter) : element("p", {}, element("a", { href: "#/keys" }, "All keys"), " / pattern ", raw(match)));
  if (match === null) listTree(root, prefix, delimiter, signal);
  else listPattern(root, match, signal);
  const pattern = match ?? (prefix.text === null ? null : `${escapedPattern(prefix.text)}*`);
  if (pattern !== null) root.append(changesPart(pattern, signal));
}

function prefixOf(rest, query) {
  const hex = query.get("hex");
  if (hex && isHex(hex)) return { hex, text: null };
  return { hex: hexOf(rest), text: rest };
}

// ---- search

function searchForm(value, delimiter, go) {
  const open = ({ key, delimiter: chosen }) => {
    const tail = chosen && chosen !== "/" ? `?delimiter=${encodeURIComponent(chosen)}` : "";
    if (/^0x/.test(key) && isHex(key.slice(2))) go(`#/key/${key.slice(2).toLowerCase()}`);
    else if (/[*?[]/.test(key)) go(withQuery("#/keys", { match: key }));
    else if (key === "" || key.endsWith(chosen || "/")) go(prefixLink({ text: key }) + tail);
    else go(`#/key/${hexOf(key)}`);
  };
  return element("div", {},
    filters("Keys", [
      { name: "key", title: "Key, prefix or pattern", value },
      { name: "delimiter", title: "Delimiter", value: delimiter },
    ], open, "Open"),
    element("p", { class: "hint" }, "A text that ends in the delimiter opens a prefix; with *, ? or [ it is a pattern; 0x and digits name bytes."));
}

const withDelimiter = (link, delimiter) => (delimiter === "/" ? link : `${link}${link.includes("?") ? "&" : "?"}delimiter=${encodeURIComponent(delimiter)}`);

function trail({ text, hex }, delimiter) {
  const links = [element("a", { href: withDelimiter("#/keys", delimiter) }, "All keys")];
  if (text === null) {
    links.push(" / ", raw(`0x${hex}`));
  } else {
    const parts = text.split(delimiter);
    parts.forEach((part, index) => {
      if (part === "" && index === parts.length - 1) return;
      const upTo = parts.slice(0, index + 1).join(delimiter) + (index < parts.length - 1 ? delimiter : "");
      links.push(" / ", element("a", { class: "raw", href: withDelimiter(prefixLink({ text: upTo }), delimiter) }, part === "" ? "(empty)" : visibleLine(part)));
    });
  }
  return element("nav", { "aria-label": "Prefix", class: "trail" }, links);
}

// ---- lists

const columns = (delimiter, holders) => [
  { title: "Key", cell: (item) => (item.prefix ? element("a", { class: "raw folder", href: withDelimiter(prefixLink(item.prefix), delimiter) }, visibleLine(named(item.prefix))) : keyLink(item.key)) },
  { title: "Keys", cell: (item) => (item.prefix ? count(item.keys) : "1"), isNumber: true },
  { title: "Size", cell: (item) => bytes(item.value_bytes), isNumber: true },
  { title: "Age", cell: (item) => (item.prefix ? "" : ago(item.changed_ms)), isNumber: true },
  { title: "Time left", cell: (item) => (item.prefix ? "" : item.expires_in_ms === null ? "no expiry" : duration(item.expires_in_ms)), isNumber: true },
  { title: "Fence", cell: (item) => (item.prefix ? "" : item.fence === undefined ? "–" : item.fence === null ? "none" : raw(item.fence)) },
  { title: "Holder", cell: (item) => (item.prefix ? "" : item.holder ?? holders.get(item.key.hex) ? raw(item.holder ?? holders.get(item.key.hex)) : "–") },
];

async function readHolders(holders, pattern, signal) {
  try {
    const page = await get(withQuery("/api/locks", { match: pattern }), signal);
    for (const lock of page.items) holders.set(lock.key.hex, lock.holder);
  } catch { /* The column stays empty. */ }
}

// Walks the pages of `path` into a table, with progress, Stop and Continue. Returns when the walk ends or stops.
function walker(root, caption, path, { delimiter = "/", pattern, signal }) {
  const found = new Map();
  const holders = new Map();
  const progress = notice();
  const rows = table(caption, columns(delimiter, holders));
  let most = MOST_ROWS, walked = 0, isWalking = false, isStopped = false;
  const control = button("Stop", () => {
    if (isWalking) isStopped = true;
    else run();
  });
  const steps = pages(path, signal);
  root.append(element("div", { class: "progress" }, progress.node, control), rows.node);

  function merge(item) {
    const known = item.prefix || item.key ? item : { key: item };
    const id = known.prefix ? `p${known.prefix.hex}` : `k${known.key.hex}`;
    const before = found.get(id);
    if (before?.prefix) {
      before.keys += known.keys;
      before.value_bytes += known.value_bytes;
    } else {
      found.set(id, known);
    }
  }

  // Folders first, by name.
  function draw() {
    const order = (item) => (item.prefix ? 0 : 1);
    const name = (item) => named(item.prefix ?? item.key);
    rows.set([...found.values()].sort((left, right) => order(left) - order(right) || (name(left) < name(right) ? -1 : 1)));
  }

  function paint(state) {
    draw();
    const keys = [...found.values()].reduce((sum, item) => sum + (item.prefix ? item.keys : 1), 0);
    progress.say(`${plural(keys, "key")} ${state}`, state === "in all" ? "done" : "");
  }

  async function walk() {
    [isWalking, isStopped] = [true, false];
    control.textContent = "Stop";
    for (;;) {
      const { done, value } = await steps.next();
      if (done) break;
      walked += 1;
      value.items.forEach(merge);
      if (!value.next) break;
      paint(`counted so far, ${plural(walked, "page")}`);
      if (isStopped || found.size >= most) {
        most = found.size + MOST_ROWS;
        isWalking = false;
        paint(isStopped ? "so far, stopped" : "so far: choose a longer prefix, or continue");
        control.textContent = "Continue";
        return;
      }
    }
    control.hidden = true;
    paint("in all");
  }

  const run = () => walk().catch((error) => {
    if (signal.aborted) return;
    control.hidden = true;
    progress.fail(error);
    if (error instanceof MissingPath) throw error;
  });
  if (pattern) readHolders(holders, pattern, signal).then(() => holders.size > 0 && draw());
  return run();
}

async function listTree(root, prefix, delimiter, signal) {
  const part = element("section", { "aria-label": "Keys of this prefix" });
  root.append(part);
  const path = `${withQuery("/api/prefixes", { delimiter })}&prefix=${percentEncoded(prefix.hex)}`;
  const pattern = prefix.text === null ? null : `${escapedPattern(prefix.text)}*`;
  try {
    await walker(part, "Prefixes and keys of this level", path, { delimiter, pattern, signal });
  } catch {
    // Without the tree, all keys below are listed.
    if (pattern === null || signal.aborted) return;
    part.querySelector("table").remove();
    const rest = element("div");
    part.append(rest);
    listPattern(rest, pattern, signal);
  }
}

function listPattern(root, match, signal) {
  const part = element("section", { "aria-label": "Keys that match" });
  root.append(part);
  walker(part, "Keys that match", withQuery("/api/keys", { match, details: 1 }), { pattern: match, signal }).catch(() => {});
}

// ---- changes

function changesPart(match, signal) {
  const mode = notice();
  const rows = table("Changes since you started, newest first", [
    { title: "Time", cell: () => new Date().toLocaleTimeString() },
    { title: "Change", cell: (change) => (change.event === "gap" ? "some changes were missed" : change.event) },
    { title: "Key", cell: (change) => (change.key ? keyLink(change.key) : "–") },
    { title: "Size", cell: (change) => bytes(change.value_bytes), isNumber: true },
    { title: "Value", cell: (change) => (change.value ? raw(named(change.value).slice(0, 100)) : "–") },
  ]);
  rows.node.hidden = true;
  let stopping = null;
  const toggle = button("Follow changes", () => {
    if (stopping) {
      stopping.abort();
      stopping = null;
      mode.say("stopped");
      toggle.textContent = "Follow changes";
      return;
    }
    stopping = new AbortController();
    toggle.textContent = "Stop following";
    rows.node.hidden = false;
    follow({ match }, {
      signal: AbortSignal.any([signal, stopping.signal]),
      onmode: (text, isFailure) => mode.say(text, isFailure ? "failed" : "done"),
      onchange(change) {
        if (change.key) keepSeen(change.key.hex, change);
        rows.prepend(change, MOST_CHANGES);
      },
    });
  }, { "data-shortcut": "p" });
  return element("section", { "aria-label": "Changes" }, element("div", { class: "progress" }, toggle, mode.node), rows.node);
}
