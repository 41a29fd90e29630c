// The server and its cluster: engine, members, clocks, configuration, and what an operator does to it.
import { download, get, post } from "./api.js";
import { documentParts, tabs } from "./clients.js";
import { askChange } from "./dialog.js";
import { button, element, facts, filters, isInUse, notice, raw, table } from "./dom.js";
import { bytes, count, duration, moment, plural } from "./format.js";
import { CONNECTING, figures, onFigures } from "./figures.js";

const LISTS = [["#/cluster", "State"], ["#/cluster/options", "Options"], ["#/cluster/policy", "Policy"], ["#/cluster/actions", "Actions"]];
// Fields of the status that Overview and Load show.
const ELSEWHERE = ["now_ms", "version", "started_s", "reasons", "warnings", "is_open", "has_token", "watches", "counts", "requests", "time_bounds_us", "storage", "disk", "process"];

export function showCluster(root, context) {
  root.append(tabs(LISTS, context.rest ? `#/cluster/${context.rest}` : "#/cluster"));
  const show = { "": showState, options: showOptions, policy: showPolicy, actions: showActions }[context.rest];
  if (show) show(root, context);
  else root.append(element("p", { class: "failed" }, "The page has no such part."));
}

// ---- state

function showState(root, { signal }) {
  const body = element("div");
  root.append(body);
  onFigures(() => {
    const { status, failure } = figures;
    if (isInUse(body)) return;
    if (!status) {
      body.replaceChildren(element("p", { class: failure === CONNECTING ? "hint" : "failed" }, failure));
      return;
    }
    const { storage, process } = status;
    const others = documentParts(status, ELSEWHERE);
    body.replaceChildren(
      element("section", { "aria-labelledby": "server-title" }, element("h2", { id: "server-title" }, "This server"), facts([
        ["Version", status.version],
        ["Started", status.started_s == null ? null : `${moment(status.started_s * 1e3)} (${duration(status.now_ms - status.started_s * 1e3)} ago)`],
        ["Clock", moment(status.now_ms)],
        ["Clients without credentials", status.is_open == null ? null : status.is_open ? "allowed" : "not allowed"],
        ["Memory of the process", process && bytes(process.resident_bytes)],
        ["Open files", process?.open_fds == null ? null : `${count(process.open_fds)} of ${count(process.max_fds)}`],
        ["Storage", storage ? "durable, in this server" : status.engine ? "an engine that servers share" : "in memory"],
        ["Written", storage && bytes(storage.written_bytes)],
        ["Failed merges", storage && count(storage.failed_merges)],
      ])),
      element("section", { "aria-labelledby": "engine-title" }, element("h2", { id: "engine-title" }, "Clocks, engine, broker and members"),
        others.length > 0 ? others : element("p", { class: "missing" }, "The status of this server names none of them."),
        others.length > 0 && !status.engine && element("p", { class: "hint" }, "No engine is shared: this server has the entries.")));
  }, signal);
}

// ---- options

async function showOptions(root, { query, go, signal }) {
  const wanted = query.get("name") ?? "";
  const progress = notice();
  const rows = table("Options in force", [
    { title: "Option", cell: (it) => element("code", {}, it.name) },
    { title: "Value", cell: (it) => raw(it.value) },
    { title: "From", cell: (it) => ({ default: "default", file: "file", environment: "environment", argument: "argument" })[it.source] ?? it.source },
    { title: "State", cell: (it) => (it.needs_restart ? "a change waits for a restart" : "in force") },
  ]);
  root.append(filters("Options", [{ name: "name", title: "Option contains", value: wanted }], ({ name }) => go(`#/cluster/options${name ? `?name=${encodeURIComponent(name)}` : ""}`)), progress.node, rows.node);
  try {
    const { options } = await get("/api/config", signal);
    const shown = options.filter((it) => it.name.includes(wanted));
    rows.set(shown);
    progress.say(plural(shown.length, "option"));
  } catch (error) {
    if (!signal.aborted) progress.fail(error);
  }
}

// ---- policy

function showPolicy(root, { query, go, signal }) {
  const wanted = { user: query.get("user") ?? "", action: query.get("action") ?? "read", name: query.get("name") ?? "" };
  const outcome = notice();
  root.append(
    element("p", {}, "Shows whether a user may do something, and by which rule. Leave the user empty for clients without one."),
    filters("Policy", [
      { name: "user", title: "User", value: wanted.user },
      { name: "action", title: "Action", value: wanted.action, choices: ["read", "write", "publish", "subscribe"].map((it) => [it, it]) },
      { name: "name", title: "Key, or topic", value: wanted.name },
    ], (values) => go(`#/cluster/policy?${new URLSearchParams(values)}`), "Check"), outcome.node);
  if (!wanted.name) return;
  const what = ["read", "write"].includes(wanted.action) ? { key: wanted.name } : { topic: wanted.name };
  post("/api/policy/check", { user: wanted.user || null, action: wanted.action, ...what }).then(
    ({ allowed, rule }) => outcome.say(`${allowed ? "Allowed" : "Not allowed"}${rule ? ` (${rule})` : ""}.`, allowed ? "done" : "failed"),
    (error) => signal.aborted || outcome.fail(error));
}

// ---- actions

function showActions(root, { reload, signal }) {
  const action = (name, text, onclick) => element("section", { "aria-label": name }, element("h2", {}, name), element("p", {}, text), onclick);
  const filter = notice();
  get("/api/log", signal).then(
    (document) => filter.say(`Filter in force: ${document.filter}`),
    (error) => signal.aborted || filter.fail(error));
  root.append(
    action("Reload", "Reads the configuration and its files again.", button("Reload…", () => askChange({
      title: "Reload", meaning: "Reads the configuration and its files again. Clients that lost their access are disconnected.",
      async work() {
        const { disconnected, needs_restart } = await post("/api/reload", {});
        const rest = needs_restart?.length ? ` These options need a restart: ${needs_restart.join(", ")}.` : "";
        return `Read again; ${plural(disconnected, "client")} disconnected.${rest}`;
      },
    }))),
    action("Backup", "Downloads all keys and values.", button("Back up…", () => askChange({
      title: "Download a backup", submit: "Download", meaning: "The file has all keys and values: keep it as safe as the server. The browser holds it in memory until it is saved.",
      async work() {
        const blob = await download("/api/backup", {});
        const link = element("a", { href: URL.createObjectURL(blob), download: "statestored.backup" });
        link.click();
        URL.revokeObjectURL(link.href);
        return `${bytes(blob.size)} downloaded.`;
      },
    }))),
    action("Drain", "Sends the clients to other servers before maintenance.", element("p", { class: "choices start" },
      button("Drain…", () => askDrain(true)), button("Stop draining…", () => askDrain(false)))),
    action("Log", "", element("div", {}, filter.node, button("Change the filter…", () => askChange({
      title: "Change the log filter", submit: "Change", meaning: "The filter is in force until the next reload.",
      fields: [{ name: "filter", title: "Filter, for example info,statestored::audit=warn" }],
      async work({ filter: wanted }) {
        await post("/api/log", { filter: wanted });
        return `The filter in force is ${wanted}.`;
      },
      done: reload,
    })))));
}

const askDrain = (on) => askChange({
  title: on ? "Drain this server" : "Stop draining",
  meaning: on
    ? ["The server takes no new clients and disconnects the present ones within the time below. Readiness checks fail, so balancers send no clients.",
      "Clients that know no other server lose the store until you stop draining."]
    : "The server takes clients again.",
  fields: on ? [{ name: "seconds", title: "Seconds", value: "10" }] : [],
  isDangerous: on,
  async work({ seconds }) {
    const { draining, connections } = await post("/api/drain", on ? { on, seconds: Number(seconds) } : { on });
    return `${draining ? "Draining" : "Not draining"}; ${plural(connections, "connection")} left.`;
  },
});
