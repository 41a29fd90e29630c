// One key: facts, value, changes that were seen, and changes of it.
import { get, post } from "./api.js";
import { askChange } from "./dialog.js";
import { button, clientLink, element, facts, notice, prefixLink, raw, table } from "./dom.js";
import { ago, bytes, clock, duration, hexDump, isHex, moment, named, percentEncoded, visible, visibleLine } from "./format.js";
import { isTree, jsonTree, parseJson } from "./json.js";
import { follow, keepSeen, seenOf } from "./live.js";
import { askRelease } from "./locks.js";

export function showEntry(root, { rest, query, replace, signal }) {
  const hex = rest.toLowerCase();
  const outcome = notice(), mode = notice();
  if (!isHex(hex)) {
    outcome.say("This link names no key: a key is given by its hexadecimal digits.", "failed");
    root.append(outcome.node);
    return;
  }
  const title = element("h2", { class: "raw" }, `0x${hex}`);
  const body = element("div");
  const past = seenPart(hex);
  root.append(title, outcome.node, body, mode.node, past.node);
  let shownAs = query.get("as");

  async function load() {
    try {
      const document = await get(`/api/key?key=${percentEncoded(hex)}`, signal);
      const { entry, key } = document;
      title.textContent = visibleLine(named(key));
      if (entry) keepSeen(hex, { event: "set", version: entry.version, value_bytes: entry.value_bytes, value: entry.value });
      past.show();
      outcome.say("");
      body.replaceChildren(...describe(document));
    } catch (error) {
      if (!signal.aborted) outcome.fail(error);
    }
  }

  function describe(document) {
    const { entry, key, watchers } = document;
    const watching = watchers?.length ? element("span", {}, watchers.flatMap((client, index) => [index > 0 && ", ", clientLink(client)])) : "no client";
    if (!entry) {
      return [facts([["State", "absent"], ["Watched by", watching]]),
        element("p", { class: "choices start" }, button("Create…", () => askSet(key, null, load)))];
    }
    const holder = document.holder ?? entry.holder;
    const holderText = typeof holder === "object" && holder ? named(holder) : holder;
    return [
      facts([
        ["Version", raw(entry.version)],
        ["Changed", `${moment(entry.changed_ms)} (${ago(entry.changed_ms)} ago)`],
        ["Size", bytes(entry.value_bytes)],
        ["Fencing token", entry.fence === undefined ? "unknown" : entry.fence === null ? "none" : raw(entry.fence)],
        ["Time left", entry.expires_in_ms == null ? "no expiry" : duration(entry.expires_in_ms)],
        ["Held by", holderText && raw(holderText)],
        ["Watched by", watching],
        ["Prefix", key.text?.includes("/") && element("a", { class: "raw", href: prefixLink({ text: key.text.slice(0, key.text.lastIndexOf("/") + 1) }) },
          visibleLine(key.text.slice(0, key.text.lastIndexOf("/") + 1)))],
      ].map(([name, value]) => [name, value || null])),
      element("p", { class: "choices start" },
        button("Edit…", () => askSet(key, entry, load)),
        button("Set expiry…", () => askExpire(key, entry, load)),
        holderText && button("Release the lock…", () => askRelease({ key, holder: holderText }, load)),
        button("Delete…", () => askDelete(key, entry, load), { class: "danger" })),
      valuePart(entry, shownAs, (form) => {
        shownAs = form;
        replace(`#/key/${hex}?as=${form}`);
      }),
    ];
  }

  load();
  follow({ key: hex }, {
    signal,
    onmode: (text, isFailure) => mode.say(`Changes: ${text}`, isFailure ? "failed" : "hint"),
    onchange(change) {
      keepSeen(hex, change);
      load();
    },
  });
}

// ---- the value

function valuePart(entry, chosen, onchoice) {
  const { value } = entry;
  const parsed = value.text === null || entry.is_truncated ? undefined : parseJson(value.text);
  const best = value.text === null ? "hex" : isTree(parsed) ? "json" : "text";
  const content = element("div");
  const select = element("select", { id: "form-of-value", onchange: () => { onchoice(select.value); paint(); } },
    [["text", "text"], ["json", "JSON"], ["hex", "hexadecimal"]].map(([form, text]) => element("option", { value: form }, text)));
  select.value = ["text", "json", "hex"].includes(chosen) ? chosen : best;
  const block = (text) => element("pre", { tabindex: "0", role: "region", "aria-label": "Content of the value" }, text);

  function paint() {
    const note = (text) => element("p", { class: "warned" }, text);
    const parts = {
      hex: () => [block(hexDump(value.hex))],
      text: () => (value.text === null ? [note("The value is not text. It is shown in hexadecimal."), block(hexDump(value.hex))] : [block(value.text)]),
      json() {
        if (entry.is_truncated) return [note("The JSON is truncated, so it is shown as text."), block(value.text ?? hexDump(value.hex))];
        if (parsed === undefined) return [note("The value is not JSON."), block(value.text ?? hexDump(value.hex))];
        return [jsonTree(parsed)];
      },
    }[select.value]();
    content.replaceChildren(...parts);
  }
  paint();
  return element("section", { "aria-label": "Value" },
    element("p", { class: "field inline" }, element("label", { for: "form-of-value" }, "Show the value as"), select),
    entry.is_truncated && element("p", { class: "warned" }, `Truncated: the first ${bytes(value.hex.length / 2)} of ${bytes(entry.value_bytes)} are shown.`),
    content);
}

// ---- what was seen

function seenPart(hex) {
  const rows = table("Versions seen since you opened the page, newest first", [
    { title: "Seen", cell: (change) => clock(change.at) },
    { title: "Change", cell: (change) => (change.event === "gap" ? "some changes were missed" : change.event) },
    { title: "Version", cell: (change) => raw(change.version) },
    { title: "Size", cell: (change) => bytes(change.value_bytes), isNumber: true },
    { title: "Value", cell: (change) => (change.preview != null ? raw(change.preview) : "–") },
  ]);
  return { node: rows.node, show: () => rows.set(seenOf(hex)) };
}

// ---- changes

// Text that a text field would not return as it was: control characters, among them CR.
const isEditableText = (text) => text !== null && visible(text) === text;

const versionText = (version) => `It happens only if the key still has the version that you see: ${version}.`;

const fenceField = (entry) => ({ name: "fence", title: "Fencing token (a protected key needs one)", value: entry?.fence ?? "" });

function milliseconds(seconds) {
  const number = Number(seconds);
  if (!(number > 0)) throw new Error("the time must be a number of seconds above 0");
  return Math.round(number * 1000);
}

function askSet(key, entry, done) {
  const isText = !entry || (!entry.is_truncated && isEditableText(entry.value.text));
  const name = visibleLine(named(key));
  const value = !entry || entry.is_truncated ? "" : isText ? entry.value.text : entry.value.hex;
  askChange({
    title: entry ? "Edit the value" : "Create the key",
    submit: entry ? "Save" : "Create",
    meaning: [
      `${entry ? "Replaces the value of" : "Creates"} ${name}. Clients that watch the key are notified.`,
      entry ? versionText(entry.version) : "It happens only if the key is still absent.",
      entry?.is_truncated ? "The value is longer than what is shown: you replace all of it." : "",
      isText ? "" : "Write hexadecimal digits: the value is not plain text.",
    ].filter(Boolean),
    fields: [
      { name: "value", title: isText ? "Value" : "Value in hexadecimal", kind: "area", value },
      { name: "expiry", title: "Expiry", kind: "choice", value: "keep", choices: entry ? [["keep", "keep the time left"], ["never", "never"], ["seconds", "after the seconds below"]] : [["never", "never"], ["seconds", "after the seconds below"]] },
      { name: "seconds", title: "Seconds" },
      fenceField(entry),
    ],
    async work(fields) {
      const written = fields.value.replace(/\r\n/g, "\n");
      const digits = written.replace(/\s/g, "");
      if (!isText && !isHex(digits)) throw new Error("these are not hexadecimal digits, two for each byte");
      const { version } = await post("/api/set", {
        hex: key.hex,
        ...(isText ? { value: written } : { value_hex: digits }),
        ...(fields.expiry === "keep" ? { keep_expiry: true } : fields.expiry === "seconds" ? { expires_in_ms: milliseconds(fields.seconds) } : {}),
        if_version: entry?.version ?? "absent",
        fence: fields.fence || undefined,
      });
      return `Saved as version ${version}.`;
    },
    done,
  });
}

function askExpire(key, entry, done) {
  askChange({
    title: "Set the expiry",
    submit: "Set",
    meaning: [`Sets the time until ${visibleLine(named(key))} is deleted; the value stays the same. If it is a lock, its holder keeps it for that time.`, versionText(entry.version)],
    fields: [
      { name: "seconds", title: "Seconds from now (empty: never)", value: entry.expires_in_ms == null ? "" : Math.ceil(entry.expires_in_ms / 1000) },
      fenceField(entry),
    ],
    async work(fields) {
      const { version } = await post("/api/expire", {
        hex: key.hex, expires_in_ms: fields.seconds.trim() === "" ? null : milliseconds(fields.seconds),
        if_version: entry.version, fence: fields.fence || undefined,
      });
      return `Set; the key has version ${version} now.`;
    },
    done,
  });
}

function askDelete(key, entry, done) {
  askChange({
    title: "Delete the key",
    submit: "Delete",
    isDangerous: true,
    meaning: [`Deletes ${visibleLine(named(key))} and its value. You cannot undo this. Clients that watch the key are notified.`, versionText(entry.version)],
    fields: [fenceField(entry)],
    async work(fields) {
      const { deleted } = await post("/api/delete", { hex: key.hex, if_version: entry.version, fence: fields.fence || undefined });
      if (deleted === 1) keepSeen(key.hex, { event: "deleted" });
      return deleted === 1 ? "Deleted." : "Nothing was deleted: the key was absent.";
    },
    done,
  });
}
