"use strict";
/** What the log, the status and the next attempt need to know of an error. */

/**
 * Returns the kind of an error in a few words.
 * @param {any} error
 * @returns {string}
 */
function kindOf(error) {
  return error?.code ?? error?.message ?? String(error);
}

/**
 * Returns the text of an error.
 * @param {unknown} error
 * @returns {string}
 */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Returns whether a connection with the same settings fails again.
 * @param {any} error
 * @returns {boolean}
 */
function isPermanent(error) {
  return error instanceof TypeError || error?.code === "InvalidSettings";
}

module.exports = { isPermanent, kindOf, messageOf };
