// Changes of a key or of a pattern, by polling. What was seen is kept until the page is closed.
import { get, pause, withQuery } from "./api.js";
import { named, percentEncoded } from "./format.js";

const POLL_MS = 2000;
const MOST_SEEN = 100, MOST_KEYS = 500, MOST_PREVIEW = 200;

// Changes seen by key, newest first.
const seen = new Map();

export const seenOf = (hex) => seen.get(hex) ?? [];

const previewOf = ({ value }) => (value ? named(value).slice(0, MOST_PREVIEW) : null);

// Keeps a change. Returns whether it is new.
export function keepSeen(hex, change) {
  const changes = seenOf(hex);
  const last = changes[0];
  if (last && last.event === change.event && (last.version ?? null) === (change.version ?? null)) {
    last.preview ??= previewOf(change);
    return false;
  }
  if (!last && seen.size >= MOST_KEYS) seen.delete(seen.keys().next().value);
  const { event, version, value_bytes } = change;
  seen.set(hex, [{ at: Date.now(), event, version, value_bytes, preview: previewOf(change) }, ...changes].slice(0, MOST_SEEN));
  return true;
}

// Follows the changes of {key: hex} or {match: pattern} until the signal aborts. `onmode` gets a text about how they are found.
export async function follow({ key, match }, { signal, onchange, onmode }) {
  const poll = key === undefined ? pollPattern(match) : pollKey(key);
  while (!signal.aborted) {
    try {
      const [changes, mode] = await poll(signal);
      onmode(mode, false);
      changes.forEach(onchange);
    } catch (error) {
      if (signal.aborted) return;
      onmode(`no changes: ${error.message}`, true);
    }
    await pause(POLL_MS, signal).catch(() => {});
  }
}

function pollKey(hex) {
  let last;
  return async (signal) => {
    const { key, entry } = await get(`/api/key?key=${percentEncoded(hex)}`, signal);
    const version = entry?.version ?? null;
    const isNew = last !== undefined && last !== version;
    last = version;
    const change = entry ? { event: "set", key, version, value_bytes: entry.value_bytes, value: entry.value } : { event: "deleted", key };
    return [isNew ? [change] : [], "polled every 2 s"];
  };
}

function pollPattern(match) {
  let last = null;
  return async (signal) => {
    const page = await get(withQuery("/api/keys", { match, details: 1 }), signal);
    const found = new Map(page.items.map((item) => [(item.key ?? item).hex, item.key ? item : { key: item }]));
    const changes = [];
    for (const [hex, item] of last ? found : []) {
      const before = last.get(hex);
      // Behind a full page, a key may be new only to the page.
      const isNew = before ? before.version !== item.version : !page.next;
      if (isNew) changes.push({ event: "set", ...item });
    }
    for (const [hex, item] of last && !page.next ? last : []) if (!found.has(hex)) changes.push({ event: "deleted", key: item.key });
    last = found;
    return [changes, page.next ? "the first keys are polled every 2 s" : "polled every 2 s"];
  };
}
