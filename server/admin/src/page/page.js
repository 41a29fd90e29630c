// The page: links to views, the token, and the keyboard. It shows what the HTTP port returns.
import { hasToken, setToken } from "./api.js";
import { showClient, showClients, showSessions } from "./clients.js";
import { showCluster } from "./cluster.js";
import { isDialogOpen, showHelp } from "./dialog.js";
import { button, element } from "./dom.js";
import { showEntry } from "./entry.js";
import { CONNECTING, figures, onFigures, watchFigures } from "./figures.js";
import { visible } from "./format.js";
import { showKeys } from "./keys.js";
import { showLoad } from "./load.js";
import { showLocks } from "./locks.js";
import { showOverview } from "./overview.js";
import { showAudit, showRefusals } from "./records.js";

// Views by the first part of the link: title, the entry of the rail, and what shows it.
const VIEWS = {
  overview: ["Overview", "overview", showOverview],
  keys: ["Keys", "keys", showKeys],
  key: ["Key", "keys", showEntry],
  locks: ["Locks", "locks", showLocks],
  clients: ["Clients", "clients", showClients],
  sessions: ["Sessions", "clients", showSessions],
  client: ["Client", "clients", showClient],
  refusals: ["Refusals", "refusals", showRefusals],
  audit: ["Audit trail", "refusals", showAudit],
  load: ["Load", "load", showLoad],
  cluster: ["Cluster", "cluster", showCluster],
};
const RAIL = ["overview", "keys", "locks", "clients", "refusals", "load", "cluster"];

const at = (id) => document.getElementById(id);

// ---- views

let leaving = new AbortController();

function go(link) {
  if (location.hash === link) return show();
  history.pushState(null, "", link);
  return enter();
}

// Changes the link without showing the view again.
const replace = (link) => history.replaceState(null, "", link);

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [first, rest] = path.split(/\/(.*)/s);
  const [title, entry, view] = VIEWS[first || "overview"] ?? ["No such view", "", showNothing];
  leaving.abort();
  leaving = new AbortController();
  for (const link of document.querySelectorAll("#rail a")) {
    if (link.dataset.view === entry) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${title} – statestored`;
  const root = element("div", {}, element("div", { class: "title" }, element("h1", { id: "title", tabindex: "-1" }, title), button("Load again", show)));
  at("main").replaceChildren(root);
  view(root, { rest: decoded(rest ?? ""), query: new URLSearchParams(search), go, replace, reload: show, signal: leaving.signal });
}

function showNothing(root) {
  root.append(element("p", {}, "This link leads to no view. ", element("a", { href: "#/overview" }, "Overview")));
}

function enter() {
  document.querySelector("dialog[open]")?.close();
  show();
  scrollTo(0, 0);
  at("title").focus({ preventScroll: true });
}

addEventListener("hashchange", enter);

// ---- the state of the server

onFigures(() => {
  const { status, failure } = figures;
  const reasons = status?.reasons ?? [];
  const text = failure ?? (reasons.length === 0 ? "ready" : `not ready: ${reasons.map((reason) => reason.code).join(", ")}`);
  // An unchanged text is not announced again.
  if (at("state").textContent !== visible(text)) at("state").textContent = visible(text);
  at("state").className = failure === CONNECTING ? "" : !failure && reasons.length === 0 ? "done" : "failed";
  if (status) at("version").textContent = visible(status.version);
}, new AbortController().signal);

// ---- the token

function useToken(given) {
  setToken(given);
  at("token-form").classList.toggle("used", hasToken());
  at("forget").hidden = !hasToken();
  watchFigures();
  show();
}

at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = at("token").value.trim();
  at("token").value = "";
  useToken(given);
});
at("forget").addEventListener("click", () => useToken(null));

// ---- the keyboard

let hasShortcuts = true;

const SHORTCUTS = [
  ...RAIL.map((view, index) => [String(index + 1), `Show ${VIEWS[view][0]}`, () => go(`#/${view}`)]),
  ["/", "Go to the first filter", () => document.querySelector("main form input")?.focus()],
  ["k", "Open a key", () => {
    go("#/keys");
    at("filter-key").select();
  }],
  ["r", "Load the view again", show],
  ["p", "Start or stop what follows changes", () => document.querySelector("[data-shortcut=p]")?.click()],
  ["t", "Type the token", () => at("token").focus()],
  ["?", "Show these shortcuts", () => showHelp(SHORTCUTS, hasShortcuts, (isOn) => { hasShortcuts = isOn; })],
];

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || isDialogOpen()) return;
  if (event.key === "Escape") document.activeElement?.blur();
  if (event.target.closest?.("input, textarea, select")) return;
  const shortcut = SHORTCUTS.find(([key]) => key === event.key);
  if (!shortcut || (!hasShortcuts && event.key !== "?")) return;
  event.preventDefault();
  shortcut[2]();
});
at("help").addEventListener("click", () => SHORTCUTS.at(-1)[2]());
at("skip").addEventListener("click", () => at("title").focus());

useToken(null);
