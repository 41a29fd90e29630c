"use strict";
/** The status of a node: that of its connection, or its own while the connection is fine. */
const { kindOf } = require("./errors");

/** @typedef {import("../types/node-red").Node} Node */
/** @typedef {import("../types/node-red").Status} Status */
/** @typedef {import("./connection").Connection} Connection */
/** @typedef {import("./connection").State} State */

/** @type {Status} */
const CONNECTED = { fill: "green", shape: "dot", text: "connected" };

/**
 * @param {State} state
 * @returns {Status}
 */
function statusOf(state) {
  switch (state.is) {
    case "connecting":
      return { fill: "yellow", shape: "ring", text: "connecting" };
    case "connected":
      return CONNECTED;
    case "disconnected":
      return { fill: "red", shape: "ring", text: `disconnected: ${kindOf(state.error)}` };
    case "closed":
      return { fill: "red", shape: "dot", text: `closed: ${state.reason}` };
  }
}

class NodeStatus {
  #node;
  #connection;
  /** @type {Status | undefined} */
  #own;
  #unlisten;

  /**
   * @param {Node} node
   * @param {Connection} connection
   */
  constructor(node, connection) {
    this.#node = node;
    this.#connection = connection;
    this.#unlisten = connection.listen(() => this.#show());
  }

  /**
   * Shows this status while the connection is fine; without one, that of the connection.
   * @param {Status} [status]
   */
  set(status) {
    this.#own = status;
    this.#show();
  }

  #show() {
    const { state } = this.#connection;
    this.#node.status(state.is === "connected" ? (this.#own ?? CONNECTED) : statusOf(state));
  }

  /** Ends the status with its node. */
  close() {
    this.#unlisten();
    this.#node.status({});
  }
}

module.exports = { NodeStatus };
