// The page shows what the HTTP port tells. Everything that clients have sent goes in as text, never as HTML.
"use strict";

const VERBS = ["set", "get", "mget", "del", "vdel", "keynotify", "scan", "txn", "caps", "invalid"];
const CHART_SECONDS = 120;

const at = (id) => document.getElementById(id);
let token = null;

// Shows control and format characters by their numbers: they could reorder or hide what stands beside them.
function visible(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (found) =>
    found === "\n" || found === "\t" ? found : `\u27e8U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

// element("td", "text"), or with other elements in it
function element(name, ...content) {
  const made = document.createElement(name);
  made.append(...content.map((part) => (part instanceof Node ? part : document.createTextNode(visible(part)))));
  return made;
}

function row(...cells) {
  const made = element("tr");
  for (const cell of cells) {
    const data = element("td", cell ?? "");
    if (typeof cell === "number") data.className = "number";
    made.append(data);
  }
  return made;
}

function note(id, text, isFailure = false) {
  at(id).textContent = visible(text);
  at(id).classList.toggle("failed", isFailure);
}

// ---- numbers

function bytes(count) {
  if (count == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) { count /= 1024; unit += 1; }
  return `${unit ? count.toFixed(1) : count} ${units[unit]}`;
}

function micros(count) {
  if (count == null) return "–";
  if (count === Infinity) return "> 2.5 s";
  if (count < 1e3) return `< ${count} µs`;
  if (count < 1e6) return `< ${count / 1e3} ms`;
  return `< ${count / 1e6} s`;
}

function duration(ms) {
  if (ms == null) return "";
  if (ms < 1e4) return `${(ms / 1e3).toFixed(1)} s`;
  if (ms < 6e5) return `${Math.round(ms / 1e3)} s`;
  return ms < 36e5 * 48 ? `${Math.round(ms / 6e4)} min` : `${Math.round(ms / 864e5)} days`;
}

const moment = (ms) => new Date(ms).toLocaleString();

// the bound that a share of what came between two counts does not exceed
function percentile(before, now, bounds, share) {
  const counts = now.map((count, range) => count - (before?.[range] ?? 0));
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= 0) return null;
  let soFar = 0;
  const range = counts.findIndex((count) => (soFar += count) >= total * share);
  return bounds[range] ?? Infinity;
}

// ---- asking

function headers() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function ask(path, body) {
  const options = { headers: headers(), cache: "no-store", credentials: "omit" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  const text = await answer.text();
  let why = text;
  try { why = JSON.parse(text).error ?? text; } catch { /* it is text */ }
  throw new Error(why.trim() || `status ${answer.status}`);
}

// ---- the figures of every second

let before = null;
const rates = [];

function show(now) {
  at("version").textContent = now.version;
  const isReady = now.reasons.length === 0;
  at("state").textContent = isReady ? "ready" : visible(now.reasons.map((reason) => reason.text).join("; "));
  at("state").classList.toggle("ready", isReady);
  if (before && now.counts && before.counts && now.started_s === before.started_s) showRates(now);
  before = now;
}

function showRates(now) {
  const seconds = Math.max(now.now_ms - before.now_ms, 1) / 1e3;
  const rate = (pick) => Math.max(pick(now) - pick(before), 0) / seconds;
  const rows = [];
  let all = 0;
  for (const verb of VERBS) {
    const total = rate((it) => it.requests[verb].total);
    const ok = rate((it) => it.requests[verb].ok);
    const of = (share) => micros(percentile(before.requests[verb].times.counts, now.requests[verb].times.counts, now.time_bounds_us, share));
    all += total;
    const made = row(verb, Math.round(total), Math.round(Math.max(total - ok, 0)), of(0.5), of(0.99), now.requests[verb].total);
    made.dataset.verb = verb;
    rows.push(made);
  }
  at("requests-rows").replaceChildren(...rows);
  const tiles = [
    ["Requests per second", Math.round(all)],
    ["Keys", now.counts.keys ?? "unknown"],
    ["Memory of entries", now.counts.entry_bytes == null ? "unknown" : bytes(now.counts.entry_bytes)],
    ["Connections", now.counts.connections],
    ["Sessions", now.counts.sessions],
    ["Watches", now.watches],
    ["Memory of clients", bytes(now.counts.held_bytes)],
    ["Notifications per second", Math.round(rate((it) => it.counts.notifications))],
    ["Refused", now.counts.refused],
    ["CPU", `${Math.round(rate((it) => it.process.cpu_s ?? 0) * 100)} %`],
    ["Memory of the process", bytes(now.process.resident_bytes)],
  ];
  if (now.storage && before.storage) {
    const of = (share) => micros(percentile(before.storage.syncs.counts, now.storage.syncs.counts, now.time_bounds_us, share));
    tiles.push(
      ["Commits per second", Math.round(rate((it) => it.storage.commits))],
      ["Sync, median and 99 %", `${of(0.5)}, ${of(0.99)}`],
      ["Written per second", bytes(Math.round(rate((it) => it.storage.written_bytes)))],
      ["Waiting for the disk", bytes(now.storage.waiting_bytes)],
      ["Log and base", `${bytes(now.storage.log_bytes)}, ${bytes(now.storage.base_bytes)}`],
      ["Merges", now.storage.is_merging ? "merging now" : `${now.storage.merges}, the last ${now.storage.merge_ms} ms`],
      ["Disk free", now.disk ? `${bytes(now.disk.free)} of ${bytes(now.disk.size)}` : "–"],
    );
  }
  at("tiles").replaceChildren(...tiles.map(([name, value]) => element("div", element("dt", name), element("dd", value))));
  rates.push(all);
  if (rates.length > CHART_SECONDS) rates.shift();
  const most = Math.max(...rates, 1);
  const place = (value, second) => `${(second * 600) / (CHART_SECONDS - 1)},${(78 - (value / most) * 74).toFixed(1)}`;
  at("chart").querySelector("polyline").setAttribute("points", rates.map(place).join(" "));
  at("chart-most").textContent = Math.round(most);
}

let watching = null;

// EventSource cannot send the token, so the stream is read here.
async function watch() {
  watching?.abort();
  const own = (watching = new AbortController());
  while (!own.signal.aborted) {
    try {
      const answer = await fetch("/events", { headers: headers(), cache: "no-store", credentials: "omit", signal: own.signal });
      if (!answer.ok) throw new Error((await answer.text()).trim());
      const parts = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await parts.read();
        if (done) break;
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) if (event.startsWith("data: ")) show(JSON.parse(event.slice(6)));
      }
      throw new Error("the server has closed the connection");
    } catch (error) {
      if (own.signal.aborted) return;
      at("state").classList.remove("ready");
      at("state").textContent = visible(`no figures: ${error.message}`);
      before = null;
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
}

// ---- lists

// A list of which parts are loaded at a button; `fill` makes a row of an item.
function list(name, path, fill) {
  let next = null;
  async function load(isMore) {
    const suffix = isMore && next != null ? `${path().includes("?") ? "&" : "?"}cursor=${next}` : "";
    try {
      const page = await (await ask(path() + suffix)).json();
      const rows = page.items.map(fill);
      if (isMore) at(`${name}-rows`).append(...rows);
      else at(`${name}-rows`).replaceChildren(...rows);
      next = page.next ?? null;
      const more = at(`${name}-more`);
      if (more) more.hidden = next == null;
      const count = at(`${name}-rows`).children.length;
      note(`${name}-note`, `${count} shown${next == null ? "" : ", there is more"}`);
    } catch (error) {
      note(`${name}-note`, error.message, true);
    }
  }
  at(`${name}-load`)?.addEventListener("click", () => load(false));
  at(`${name}-more`)?.addEventListener("click", () => load(true));
  return load;
}

const encoded = (hex) => hex.replace(/../g, "%$&");
const named = (name) => name.text ?? `0x${name.hex}`;

function keyButton(key) {
  const button = element("button", named(key));
  button.type = "button";
  button.className = "key";
  button.addEventListener("click", () => open(key));
  return button;
}

const loadKeys = list("keys", () => `/api/keys?match=${encodeURIComponent(at("pattern").value || "*")}`, (key) => row(keyButton(key)));
list("locks", () => "/api/locks", (lock) =>
  row(keyButton(lock.key), `${lock.client}${lock.has_session ? "" : " (no session)"}`, lock.holder, moment(lock.since_ms), duration(lock.expires_in_ms)));
const loadConnections = list("connections", () => "/api/connections", (it) => row(it.client, it.user, it.peer, bytes(it.outstanding_bytes), bytes(it.held_bytes), disconnectButton(it.client)));
list("sessions", () => "/api/sessions", (it) =>
  row(it.client, it.user, it.is_connected ? "yes" : "no", it.subscriptions, bytes(it.held_bytes), it.expiry_s === 4294967295 ? "for ever" : duration(it.expiry_s * 1e3)));
list("refusals", () => "/api/refusals", (it) => row(moment(it.at_ms), it.count, it.peer, it.client, it.user, it.cause, it.why));

at("keys-form").addEventListener("submit", (event) => {
  event.preventDefault();
  loadKeys(false);
});

// ---- one entry

let opened = null;

async function open(key) {
  try {
    opened = await (await ask(`/api/key?key=${encoded(key.hex)}`)).json();
  } catch (error) {
    return note("keys-note", error.message, true);
  }
  const { entry, watchers } = opened;
  at("entry").hidden = false;
  at("entry-title").textContent = visible(named(opened.key));
  const facts = entry
    ? [
        ["Version", entry.version],
        ["Changed", moment(entry.changed_ms)],
        ["Size", bytes(entry.value_bytes) + (entry.is_truncated ? ", truncated: the first 64 KiB are shown" : "")],
        ["Fencing token", entry.fence === undefined ? "unknown" : (entry.fence ?? "none")],
        ["Expires", entry.expires_in_ms == null ? "never" : `in ${duration(entry.expires_in_ms)}`],
        ["Watched by", watchers.length ? watchers.join(", ") : "nobody"],
      ]
    : [["State", "absent"], ["Watched by", watchers.length ? watchers.join(", ") : "nobody"]];
  at("entry-facts").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
  at("entry-delete").hidden = !entry;
  showValue();
  at("entry-title").focus();
}

function showValue() {
  const value = opened?.entry?.value;
  const form = at("form-of-value").value;
  let text = "";
  if (value && form === "hex") {
    text = value.hex.replace(/(..)(?=.)/g, "$1 ");
  } else if (value && value.text == null) {
    text = "no text: choose hexadecimal";
  } else if (value) {
    text = value.text;
    if (form === "json") {
      try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { text = `no JSON:\n${text}`; }
    }
  }
  at("entry-value").textContent = visible(text);
}

at("form-of-value").addEventListener("change", showValue);

// ---- changes

async function change(id, question, work) {
  if (!window.confirm(visible(question))) return;
  try {
    note(id, await work());
  } catch (error) {
    note(id, error.message, true);
  }
}

function disconnectButton(client) {
  const button = element("button", "Disconnect");
  button.type = "button";
  button.className = "change";
  button.disabled = !token || !client;
  button.addEventListener("click", () =>
    change("connections-note", `Disconnect ${client}? It may come back.`, async () => {
      await ask("/api/disconnect", { client });
      await loadConnections(false);
      return `${client} was disconnected`;
    }));
  return button;
}

at("entry-delete").addEventListener("click", () =>
  change("keys-note", `Delete ${named(opened.key)}?`, async () => {
    const fence = opened.entry.fence ?? undefined;
    const done = await (await ask("/api/delete", { hex: opened.key.hex, fence })).json();
    await open(opened.key);
    return `${done.deleted} deleted`;
  }));

at("reload").addEventListener("click", () =>
  change("changes-note", "Read the configuration and its files again?", async () => {
    const done = await (await ask("/api/reload", {})).json();
    return `read again; ${done.disconnected} clients were disconnected`;
  }));

at("backup").addEventListener("click", () =>
  change("changes-note", "Download a backup with all keys and values?", async () => {
    const blob = await (await ask("/api/backup", {})).blob();
    const link = element("a");
    link.href = URL.createObjectURL(blob);
    link.download = "statestored.backup";
    link.click();
    URL.revokeObjectURL(link.href);
    return `${bytes(blob.size)} downloaded`;
  }));

// ---- the token

function useToken(given) {
  token = given;
  at("forget").hidden = !token;
  for (const button of document.querySelectorAll("button.change")) button.disabled = !token;
  before = null;
  watch();
}

at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = at("token").value.trim();
  at("token").value = "";
  useToken(given || null);
});
at("forget").addEventListener("click", () => useToken(null));
useToken(null);
