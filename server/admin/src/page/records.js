// Refusals, and the audit trail.
import { withQuery } from "./api.js";
import { tabs } from "./clients.js";
import { clientLink, element, filters, keyLink, notice, raw, table } from "./dom.js";
import { count, moment } from "./format.js";
import { listAll } from "./locks.js";

const LISTS = [["#/refusals", "Refusals"], ["#/audit", "Audit trail"]];
const CAUSES = ["login", "authorization", "quota", "rate", "connections", "protocol", "clock", "fencing", "unavailable"];

const valuesOf = (query, names) => Object.fromEntries(names.map((name) => [name, query.get(name) ?? ""]));

const contains = (text, part) => !part || String(text ?? "").includes(part);

export function showRefusals(root, { query, go, signal }) {
  const wanted = valuesOf(query, ["client", "user", "cause", "key"]);
  const progress = notice();
  const rows = table("Rejected clients and requests, newest first", [
    { title: "Last", cell: (it) => moment(it.at_ms) },
    { title: "Times", cell: (it) => element("span", { title: `first ${moment(it.first_ms)}` }, count(it.count)), isNumber: true },
    { title: "Cause", cell: (it) => element("code", {}, it.cause) },
    { title: "Why", cell: (it) => it.why },
    { title: "Client", cell: (it) => clientLink(it.client) },
    { title: "User", cell: (it) => raw(it.user) },
    { title: "Address", cell: (it) => raw(it.peer) },
    { title: "Key", cell: (it) => (it.key ? keyLink(it.key) : "–") },
  ]);
  root.append(tabs(LISTS, "#/refusals"),
    filters("Refusals", [
      { name: "cause", title: "Cause", value: wanted.cause, choices: [["", "all"], ...CAUSES.map((cause) => [cause, cause])] },
      { name: "client", title: "Client", value: wanted.client },
      { name: "user", title: "User", value: wanted.user },
      { name: "key", title: "Key contains", value: wanted.key },
    ], (values) => go(withQuery("#/refusals", values))),
    progress.node, rows.node);
  const keep = (it) => (!wanted.cause || it.cause === wanted.cause) && contains(it.client, wanted.client) && contains(it.user, wanted.user)
    && contains(it.key?.text ?? it.key?.hex, wanted.key);
  listAll(rows, withQuery("/api/refusals", wanted), "refusal", progress, signal, { keep });
}

export function showAudit(root, { query, go, signal }) {
  const wanted = valuesOf(query, ["event", "client", "user"]);
  const progress = notice();
  const rows = table("Audit trail since the start of the server, newest first", [
    { title: "Time", cell: (it) => moment(it.at_ms) },
    { title: "Level", cell: (it) => it.level },
    { title: "Event", cell: (it) => element("code", {}, it.event) },
    { title: "Client", cell: (it) => clientLink(it.fields?.client) },
    { title: "User", cell: (it) => raw(it.fields?.user) },
    { title: "Details", cell: (it) => raw(Object.entries(it.fields ?? {}).filter(([name, value]) => !["client", "user"].includes(name) && value != null)
      .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`).join("  ")) },
  ]);
  root.append(tabs(LISTS, "#/audit"),
    filters("Audit trail", [
      { name: "event", title: "Event", value: wanted.event },
      { name: "client", title: "Client", value: wanted.client },
      { name: "user", title: "User", value: wanted.user },
    ], (values) => go(withQuery("#/audit", values))),
    progress.node, rows.node);
  listAll(rows, withQuery("/api/audit", wanted), "line", progress, signal);
}
