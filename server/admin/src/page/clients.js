// Clients: connections, sessions, and one client.
import { get, MissingPath, post, Rejection, withQuery } from "./api.js";
import { askChange } from "./dialog.js";
import { button, clientLink, element, facts, filters, keyLink, notice, raw, table } from "./dom.js";
import { ago, bytes, count, duration, moment, plural, rate, visibleLine } from "./format.js";
import { listAll } from "./locks.js";

const FOR_EVER = 4294967295;
const SORTS = [["", "as they come"], ["user", "user"], ["address", "address"], ["rate", "requests per second"], ["held", "held bytes"], ["outstanding", "bytes not sent yet"]];

const byText = (pick) => (left, right) => String(pick(left) ?? "").localeCompare(String(pick(right) ?? ""));
const byNumber = (pick) => (left, right) => (pick(right) ?? -1) - (pick(left) ?? -1);
const COMPARISONS = {
  user: byText((it) => it.user), address: byText((it) => it.peer),
  rate: byNumber((it) => it.requests_per_s), held: byNumber((it) => it.held_bytes), outstanding: byNumber((it) => it.outstanding_bytes),
};

export const tabs = (links, current) => element("nav", { class: "tabs", "aria-label": "Lists" },
  links.map(([href, text]) => element("a", { href, "aria-current": href === current && "page" }, text)));

const LISTS = [["#/clients", "Connections"], ["#/sessions", "Sessions"]];

const has = (text, part) => !part || String(text ?? "").includes(part);

export function showClients(root, { query, go, reload, signal }) {
  const wanted = { client: query.get("client") ?? "", user: query.get("user") ?? "", address: query.get("address") ?? "", sort: query.get("sort") ?? "" };
  const progress = notice();
  const sorted = (sort) => go(withQuery("#/clients", { ...wanted, sort }));
  const rows = table("Connections", [
    { title: "Client", cell: (it) => clientLink(it.client) },
    { title: "User", cell: (it) => raw(it.user), sort: "user" },
    { title: "Address", cell: (it) => raw(it.peer), sort: "address" },
    { title: "Protocol", cell: (it) => it.protocol },
    { title: "Connected", cell: (it) => (it.since_ms == null ? "–" : element("span", { title: moment(it.since_ms) }, ago(it.since_ms))), isNumber: true },
    { title: "Requests", cell: (it) => count(it.requests), isNumber: true },
    { title: "Rate", cell: (it) => rate(it.requests_per_s), isNumber: true, sort: "rate" },
    { title: "Not sent yet", cell: (it) => bytes(it.outstanding_bytes), isNumber: true, sort: "outstanding" },
    { title: "Held", cell: (it) => bytes(it.held_bytes), isNumber: true, sort: "held" },
    { title: "Change", cell: (it) => it.client && button("Disconnect…", () => askDisconnect({ client: it.client }, reload), { "aria-label": `Disconnect ${visibleLine(it.client)}` }) },
  ], { sort: wanted.sort, onsort: sorted });
  root.append(
    tabs(LISTS, "#/clients"),
    filters("Connections", [
      { name: "client", title: "Client contains", value: wanted.client },
      { name: "user", title: "User is", value: wanted.user },
      { name: "address", title: "Address begins with", value: wanted.address },
      { name: "sort", title: "Sort by", value: wanted.sort, choices: SORTS },
    ], (values) => go(withQuery("#/clients", values))),
    wanted.user && element("p", { class: "choices start" }, button("Disconnect all of this user…", () => askDisconnect({ user: wanted.user }, reload), { class: "danger" })),
    progress.node, rows.node);
  // A server without filters sends all.
  const keep = (it) => has(it.client, wanted.client) && (!wanted.user || it.user === wanted.user) && (!wanted.address || String(it.peer ?? "").startsWith(wanted.address));
  // The server sorts by numbers alone.
  const sort = ["user", "address"].includes(wanted.sort) ? "" : wanted.sort;
  listAll(rows, withQuery("/api/connections", { ...wanted, sort }), "connection", progress, signal, { keep, compare: COMPARISONS[wanted.sort] });
}

export function showSessions(root, { query, go, signal }) {
  const wanted = query.get("client") ?? "";
  const progress = notice();
  const rows = table("Sessions", [
    { title: "Client", cell: (it) => clientLink(it.client) },
    { title: "User", cell: (it) => raw(it.user) },
    { title: "Connected", cell: (it) => (it.is_connected ? "yes" : "no") },
    { title: "Subscriptions", cell: (it) => count(it.subscriptions), isNumber: true },
    { title: "Held", cell: (it) => bytes(it.held_bytes), isNumber: true },
    { title: "Kept after the end of the connection", cell: (it) => expiry(it.expiry_s), isNumber: true },
  ]);
  root.append(tabs(LISTS, "#/sessions"),
    filters("Sessions", [{ name: "client", title: "Client or user contains", value: wanted }], (values) => go(withQuery("#/sessions", values))),
    progress.node, rows.node);
  listAll(rows, "/api/sessions", "session", progress, signal, { keep: (it) => has(it.client, wanted) || has(it.user, wanted) });
}

const expiry = (seconds) => (seconds == null ? "–" : seconds === FOR_EVER ? "for ever" : duration(seconds * 1e3));

function askDisconnect(whom, done) {
  const { client, user } = whom;
  askChange({
    title: client ? "Disconnect a client" : "Disconnect all clients of a user",
    submit: "Disconnect",
    isDangerous: true,
    meaning: client
      ? [`Closes the connection of ${visibleLine(client)}. Its session stays; the client may come back at once.`, "Requests on the way may or may not have been executed."]
      : [`Closes all connections of the user ${visibleLine(user)}. They may come back at once: to keep them out, change the users or the policy.`],
    async work() {
      const answer = await post("/api/disconnect", whom);
      return `${plural(Number(answer.disconnected), "connection")} closed.`;
    },
    done,
  });
}

// ---- one client

const UNITS = {
  at_ms: moment, since_ms: moment, renewed_ms: moment, first_ms: moment, expiry_s: expiry, requests_per_s: rate,
};

function unitOf(name, value) {
  if (UNITS[name]) return UNITS[name](value);
  if (name.endsWith("_bytes")) return bytes(value);
  if (name.endsWith("_ms")) return duration(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? count(value) : raw(value);
}

const titleOf = (name) => {
  const words = name.replace(/^is_|_(ms|s|bytes)$/g, "").replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
};

const isBytes = (value) => value !== null && typeof value === "object" && typeof value.hex === "string";

// Shows any document as facts: fields with unit, and objects and lists in them.
export function documentParts(document, leftOut = []) {
  const simple = [], parts = [];
  for (const [name, value] of Object.entries(document)) {
    if (value == null || leftOut.includes(name)) continue;
    const title = titleOf(name);
    if (isBytes(value)) simple.push([title, keyLink(value)]);
    else if (Array.isArray(value)) parts.push(section(title, value.length === 0 ? [element("p", { class: "hint" }, "None.")] : [listOf(value)]));
    else if (typeof value === "object") parts.push(section(title, documentParts(value)));
    else simple.push([title, unitOf(name, value)]);
  }
  return [simple.length > 0 && facts(simple), ...parts].filter(Boolean);
}

const section = (title, content) => element("section", { "aria-label": title }, element("h3", {}, title), content);

const listOf = (values) => element("ul", { class: "plain" }, values.map((value) => element("li", {}, isBytes(value)
  ? keyLink(value)
  : value !== null && typeof value === "object" ? facts(Object.entries(value).filter(([, its]) => its != null).map(([name, its]) =>
    [titleOf(name), isBytes(its) ? keyLink(its) : typeof its === "object" ? raw(JSON.stringify(its)) : unitOf(name, its)])) : raw(value))));

export function showClient(root, { rest, reload, signal }) {
  const outcome = notice();
  const body = element("div");
  root.append(
    element("p", {}, element("a", { href: "#/clients" }, "All clients")),
    element("h2", { class: "raw" }, visibleLine(rest)),
    element("p", { class: "choices start" },
      button("Disconnect…", () => askDisconnect({ client: rest }, reload), { class: "danger" }),
      element("a", { href: withQuery("#/refusals", { client: rest }) }, "Refusals of this client"),
      element("a", { href: withQuery("#/audit", { client: rest }) }, "Its audit trail")),
    outcome.node, body);
  readClient(rest, signal).then(
    ({ document, missing }) => {
      if (missing) outcome.fail(missing);
      body.replaceChildren(...documentParts(document, ["client"]));
    },
    (error) => signal.aborted || outcome.fail(error));
}

// Returns the client's document; of a server without that path, what the lists have.
async function readClient(client, signal) {
  try {
    return { document: await get(withQuery("/api/client", { client }), signal) };
  } catch (error) {
    if (!(error instanceof MissingPath)) throw error;
    const find = async (path) => (await get(withQuery(path, { client }), signal)).items.find((it) => it.client === client);
    const [connection, session] = await Promise.all([find("/api/connections"), find("/api/sessions")]);
    if (!connection && !session) throw new Rejection(404, `${error.message}, and the first page of the lists has no such client`);
    return { document: { connection, session }, missing: error };
  }
}
