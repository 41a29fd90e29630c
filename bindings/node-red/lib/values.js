"use strict";
/** Values of messages and of the store. */
const { Hlc } = require("statestore");

/** @typedef {"text" | "json" | "buffer"} Format */

/**
 * Returns the bytes of a value: text and buffers as they are, anything else as JSON.
 * @param {unknown} value
 * @param {string} called name of the value in an error
 * @returns {string | Uint8Array}
 */
function bytesOf(value, called) {
  if (typeof value === "string" || value instanceof Uint8Array) {
    return value;
  }
  const json = JSON.stringify(value);
  if (json === undefined) {
    throw new TypeError(`${called} is ${typeof value}, which has no JSON`);
  }
  return json;
}

/**
 * Returns a key or the name of a lock: text, a buffer, or a number.
 * @param {unknown} value
 * @param {string} called
 * @returns {string | Uint8Array}
 */
function keyOf(value, called) {
  const key = typeof value === "number" ? String(value) : value;
  if ((typeof key !== "string" && !(key instanceof Uint8Array)) || key.length === 0) {
    throw new TypeError(`${called} is not text: ${value === null ? "null" : typeof value === "string" ? "it is empty" : typeof value}`);
  }
  return key;
}

/**
 * Returns a value of the store in the form that a node asks for.
 * @param {Buffer} value
 * @param {Format} format
 * @returns {unknown}
 */
function valueIn(value, format) {
  switch (format) {
    case "buffer":
      return value;
    case "json":
      return JSON.parse(value.toString());
    default:
      return value.toString();
  }
}

/**
 * Reads the version or fencing token that a message has as text.
 * @param {unknown} value
 * @param {string} called
 * @returns {Hlc}
 */
function hlcOf(value, called) {
  if (typeof value !== "string") {
    throw new TypeError(`${called} is no version: ${value === null ? "null" : typeof value}`);
  }
  return Hlc.parse(value);
}

/**
 * Reads seconds of an edit dialog as milliseconds; `undefined` for an empty field.
 * @param {unknown} value
 * @returns {number | undefined}
 */
function millisecondsOf(value) {
  return value === undefined || value === null || value === "" ? undefined : Math.round(Number(value) * 1000);
}

module.exports = { bytesOf, hlcOf, keyOf, millisecondsOf, valueIn };
