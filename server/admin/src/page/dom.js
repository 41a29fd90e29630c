// Elements. Everything that clients have sent goes in as text, never as HTML.
import { visible, visibleLine, named } from "./format.js";

const SVG = new Set(["svg", "path", "line", "polyline", "rect", "text", "g"]);

// element("a", { href: "#/keys", class: "key", onclick: f }, "text", node, [more])
export function element(name, attributes = {}, ...content) {
  const made = SVG.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "value") made.value = value;
    else made.setAttribute(key, value === true ? "" : visible(value));
  }
  made.append(...content.flat().filter((part) => part != null && part !== false)
    .map((part) => (part instanceof Node ? part : document.createTextNode(visible(part)))));
  return made;
}

export const button = (text, onclick, attributes = {}) => element("button", { type: "button", onclick, ...attributes }, text);

// Text of a client: an identifier, a key or a topic, which may break anywhere.
export const raw = (text) => (text == null ? "–" : element("span", { class: "raw" }, visibleLine(text)));

// Whether the user has the focus or a selection in a part, which an update would lose.
export const isInUse = (node) => node.contains(document.activeElement) || (!getSelection().isCollapsed && node.contains(getSelection().anchorNode));

// ---- links

export const prefixLink = (prefix) => (prefix.text == null
  ? `#/keys?hex=${prefix.hex}`
  : `#/keys/${prefix.text.split("/").map(encodeURIComponent).join("/")}`);

export const keyLink = (key) => element("a", { class: "raw", href: `#/key/${key.hex}` }, visibleLine(named(key)));

export const clientLink = (client) => (client ? element("a", { class: "raw", href: `#/client/${encodeURIComponent(client)}` }, visibleLine(client)) : "–");

// ---- messages

// A place for the outcome of an action, which screen readers announce.
export function notice() {
  const node = element("p", { role: "status", class: "notice" });
  return {
    node,
    say(text, kind = "") {
      node.textContent = visible(text);
      node.className = `notice ${kind}`;
    },
    fail(error) {
      this.say(error.message, error.constructor.name === "MissingPath" ? "missing" : "failed");
    },
  };
}

// ---- facts and tables

// facts([["Name", value], …]): pairs without a value are left out
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null);
  return element("dl", { class: "facts" }, shown.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

// A table that becomes a list of cards on a narrow screen; the roles keep it a table for screen readers.
// columns: [{ title, cell: item => content, isNumber, sort }]
export function table(caption, columns, { sort = null, onsort = null } = {}) {
  const body = element("tbody", { role: "rowgroup" });
  const heads = columns.map((column) => {
    const isSorted = column.sort != null && column.sort === sort;
    const title = column.sort && onsort ? button(column.title, () => onsort(column.sort), { class: "sort" }) : column.title;
    return element("th", { scope: "col", role: "columnheader", class: column.isNumber && "number", "aria-sort": isSorted && (column.isNumber ? "descending" : "ascending") }, title);
  });
  const node = element("table", { role: "table" },
    element("caption", {}, caption),
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, heads)), body);
  const row = (item) => element("tr", { role: "row" }, columns.map((column) =>
    element("td", { role: "cell", class: column.isNumber && "number", "data-title": column.title }, column.cell(item) ?? "–")));
  return {
    node,
    append: (items) => body.append(...items.map(row)),
    set: (items) => body.replaceChildren(...items.map(row)),
    prepend(item, most) {
      body.prepend(row(item));
      while (body.children.length > most) body.lastChild.remove();
    },
    get length() { return body.children.length; },
  };
}

// A form of filters whose values go into the link of the view.
// fields: [{ name, title, value, choices?: [[value, title]] }]
export function filters(title, fields, onsubmit, submit = "Filter") {
  const inputs = fields.map((field) => {
    const id = `filter-${field.name}`;
    const input = field.choices
      ? element("select", { id, name: field.name, onchange: () => form.requestSubmit() },
        field.choices.map(([value, text]) => element("option", { value, selected: value === (field.value ?? "") }, text)))
      : element("input", { id, name: field.name, value: field.value ?? "", spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
    return element("p", {}, element("label", { for: id }, field.title), input);
  });
  const form = element("form", {
    role: "search", "aria-label": title, class: "filters",
    onsubmit(event) {
      event.preventDefault();
      onsubmit(Object.fromEntries(new FormData(form)));
    },
  }, inputs, element("button", {}, submit));
  return form;
}
