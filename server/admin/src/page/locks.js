// Locks: holders, time left and waiters, and their release.
import { pages, post, withQuery } from "./api.js";
import { askChange } from "./dialog.js";
import { button, clientLink, element, filters, keyLink, notice, raw, table } from "./dom.js";
import { ago, count, duration, moment, named, plural, visibleLine } from "./format.js";

// More rows take too long to draw at once.
const MOST_ROWS = 200;

export function showLocks(root, { query, go, reload, signal }) {
  const match = query.get("match") ?? "";
  const progress = notice();
  const rows = table("Keys that expire and name their holder", [
    { title: "Lock", cell: (lock) => keyLink(lock.key) },
    { title: "Holder", cell: (lock) => raw(lock.holder) },
    { title: "Client", cell: (lock) => element("span", {}, clientLink(lock.client), lock.has_session === false && element("span", { class: "warned" }, " no session")) },
    { title: "Held for", cell: (lock) => element("span", { title: moment(lock.since_ms) }, ago(lock.since_ms)), isNumber: true },
    { title: "Time left", cell: (lock) => duration(lock.expires_in_ms), isNumber: true },
    { title: "Waiters", cell: (lock) => count(lock.waiters), isNumber: true },
    { title: "Change", cell: (lock) => button("Release…", () => askRelease(lock, reload), { "aria-label": `Release ${visibleLine(named(lock.key))}` }) },
  ]);
  root.append(
    filters("Locks", [{ name: "match", title: "Pattern of keys", value: match }], (values) => go(withQuery("#/locks", values))),
    progress.node, rows.node);
  listAll(rows, withQuery("/api/locks", { match }), "lock", progress, signal);
}

// Shows a button behind a node, and waits until it is pressed.
const pressed = (text, node) => new Promise((done) => {
  const more = button(text, () => {
    more.remove();
    done();
  });
  node.after(more);
});

// Follows the pages of a list into a table: the items to keep, by `compare` or as they come.
export async function listAll(rows, path, noun, progress, signal, { keep = () => true, compare = null } = {}) {
  let all = [], most = MOST_ROWS;
  try {
    for await (const page of pages(path, signal)) {
      const items = page.items.filter(keep);
      if (compare) rows.set(all = [...all, ...items].sort(compare));
      else rows.append(items);
      const isCut = page.next != null && rows.length >= most;
      // A sorted list may be of a part of the connections.
      const part = page.is_complete === false ? " of those that the server compared" : "";
      progress.say(`${plural(rows.length, noun)}${part}${isCut ? " shown, there are more" : page.next == null ? "" : " so far"}`);
      if (isCut) {
        await pressed("Show more", rows.node);
        most = rows.length + MOST_ROWS;
      }
    }
  } catch (error) {
    if (!signal.aborted) progress.fail(error);
  }
}

export function askRelease(lock, done) {
  askChange({
    title: "Release the lock",
    submit: "Release",
    isDangerous: true,
    meaning: [
      `Takes ${visibleLine(named(lock.key))} away from ${visibleLine(lock.holder)}. The next waiter may get it at once.`,
      "The holder may still be at work and is not stopped: two clients can then work at the same time. Only keys that check fencing tokens are safe from the first one.",
      "Release it only if the holder is gone or stuck. Else wait until its time is over.",
    ],
    async work() {
      const { released } = await post("/api/unlock", { hex: lock.key.hex, holder: lock.holder });
      return released ? "Released." : "Nothing was released: the lock was free already.";
    },
    done,
  });
}
