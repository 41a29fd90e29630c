"use strict";
/** Paths of Node-RED into the values of a context, such as `line.speeds[0]` or `line["max speed"]`. */

const PART = /(?:^|\.)([^.[\]\s"']+)|\[(\d+)\]|\[(?:"([^"]*)"|'([^']*)')\]/y;

/**
 * Returns the error that Node-RED has for a path that cannot be read.
 * @param {string} path
 */
function invalid(path) {
  return Object.assign(new Error(`the context key ${JSON.stringify(path)} is not valid`), { code: "INVALID_EXPR" });
}

/**
 * Reads a path. The first part is the key of the context.
 * @param {unknown} path
 * @returns {[string, ...(string | number)[]]}
 */
function parse(path) {
  if (typeof path !== "string" || path === "") {
    throw invalid(String(path));
  }
  /** @type {(string | number)[]} */
  const parts = [];
  PART.lastIndex = 0;
  while (PART.lastIndex < path.length) {
    const at = PART.lastIndex;
    const match = PART.exec(path);
    if (match === null || (at === 0 && match[0].startsWith(".")) || match.slice(1).includes("__proto__")) {
      throw invalid(path);
    }
    const [, name, index, double, single] = match;
    parts.push(index === undefined ? /** @type {string} */ (name ?? double ?? single) : Number(index));
  }
  const [key, ...rest] = parts;
  return [String(key), ...rest];
}

/**
 * Returns the value at a path within a value; `undefined` if there is none.
 * @param {any} value
 * @param {(string | number)[]} parts
 * @returns {unknown}
 */
function read(value, parts) {
  let found = value;
  for (const part of parts) {
    if (found === null || typeof found !== "object" || !Object.hasOwn(found, part)) {
      return undefined;
    }
    found = found[part];
  }
  return found;
}

/**
 * Changes the value at a path within a value, and returns the whole. Missing objects and arrays are created; `undefined` deletes.
 * @param {any} whole
 * @param {(string | number)[]} parts
 * @param {unknown} value
 * @returns {any}
 */
function write(whole, parts, value) {
  const [part, ...rest] = parts;
  if (part === undefined) {
    return value;
  }
  const present = whole ?? undefined;
  if (present === undefined && value === undefined) {
    return whole;
  }
  const holder = present ?? (typeof part === "number" ? [] : {});
  if (typeof holder !== "object") {
    throw new TypeError(`${JSON.stringify(part)} cannot be set: its owner is a ${typeof holder}`);
  }
  const changed = write(Object.hasOwn(holder, part) ? holder[part] : undefined, rest, value);
  if (changed !== undefined) {
    holder[part] = changed;
  } else if (Array.isArray(holder)) {
    holder.splice(Number(part), 1);
  } else {
    delete holder[part];
  }
  return holder;
}

module.exports = { parse, read, write };
