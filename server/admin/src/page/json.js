// JSON as a tree that folds.
import { element } from "./dom.js";
import { plural } from "./format.js";

// A number as it was written: a number of JavaScript would round it.
class Numeral {
  constructor(source) {
    this.source = source;
  }
}

// Returns the document, or undefined if the text is no JSON.
export function parseJson(text) {
  try {
    return JSON.parse(text, (_, value, context) => (typeof value === "number" && context?.source ? new Numeral(context.source) : value));
  } catch {
    return undefined;
  }
}

export const isTree = (value) => typeof value === "object" && value !== null && !(value instanceof Numeral);

export function jsonTree(value) {
  return element("div", { class: "json" }, node(null, value, true));
}

function node(name, value, isOpen) {
  const label = name === null ? "" : [element("b", {}, JSON.stringify(name)), ": "];
  if (!isTree(value)) return element("div", {}, label, value instanceof Numeral ? value.source : JSON.stringify(value));
  const children = Object.entries(value);
  const size = Array.isArray(value) ? `[ ${plural(children.length, "item")} ]` : `{ ${plural(children.length, "member")} }`;
  // Children are made when they are first shown: a document may have thousands.
  const fold = element("details", { ontoggle: fill }, element("summary", {}, label, size));
  function fill() {
    if (!fold.open || fold.children.length > 1) return;
    fold.append(...children.map(([key, child]) => node(Array.isArray(value) ? Number(key) : key, child, false)));
  }
  if (isOpen) {
    fold.open = true;
    fill();
  }
  return fold;
}
