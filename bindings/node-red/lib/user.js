"use strict";
/** What the nodes have in common: their connection, their status, and the answers to their messages. */
const { Backoff } = require("./connection");
const { kindOf } = require("./errors");
const { NodeStatus } = require("./status");

/** @typedef {import("../types/node-red").NodeAPI} NodeAPI */
/** @typedef {import("../types/node-red").Node} Node */
/** @typedef {import("../types/node-red").Config} Config */
/** @typedef {import("../types/node-red").Message} Message */
/** @typedef {import("../types/node-red").Send} Send */
/** @typedef {import("./connection").Connection} Connection */
/** @typedef {import("statestore").Client} Client */

/** Wakes nodes that wait until all nodes of the flows exist. One listener serves all of them. @type {Set<() => void>} */
const waiting = new Set();
let isListening = false;

/** @param {NodeAPI} red */
function listen(red) {
  if (isListening) {
    return;
  }
  isListening = true;
  red.events.once("flows:started", () => {
    isListening = false;
    const woken = [...waiting];
    waiting.clear();
    woken.forEach((wake) => wake());
  });
}

class User {
  #red;
  #node;
  #end = new AbortController();

  /**
   * Begins to use the connection of a configuration node. Without one, the node shows that.
   * @param {NodeAPI} red
   * @param {Node} node
   * @param {Config} config
   */
  constructor(red, node, config) {
    this.#red = red;
    this.#node = node;
    /** @type {Connection | undefined} */
    this.connection = red.nodes.getNode(config.server)?.connection;
    this.status = this.connection === undefined ? undefined : new NodeStatus(node, this.connection);
    if (this.connection === undefined) {
      node.status({ fill: "red", shape: "ring", text: "no server" });
    }
  }

  /** Fires when the node is closed. */
  get signal() {
    return this.#end.signal;
  }

  /** Resolves when all nodes of the flows exist, so that a message finds them. Rejects if this node is closed before. */
  started() {
    /** @type {Promise<void>} */
    const started = new Promise((resolve, reject) => {
      waiting.add(resolve);
      this.signal.addEventListener("abort", () => {
        waiting.delete(resolve);
        reject(this.signal.reason);
      });
    });
    listen(this.#red);
    return started;
  }

  /** Returns the connection; throws if the node has no server. */
  connected() {
    if (this.connection === undefined) {
      throw new Error("no server is chosen, or it is disabled");
    }
    return this.connection;
  }

  /**
   * Calls `work` for each message. Its error goes to the catch nodes; that of a closed node goes nowhere.
   * @param {(message: Message, send: Send) => Promise<void>} work
   */
  onInput(work) {
    this.#node.on("input", (message, send, done) => {
      work(message, send).then(
        () => done(),
        (error) => (this.signal.aborted ? done() : done(error)),
      );
    });
  }

  /**
   * Does work with the client, and again after it has ended, until the node is closed. The work calls `succeeded` as soon as it is of use.
   * After that, the next failure is logged; otherwise only one of another kind.
   * @param {(client: Client, succeeded: () => void) => Promise<void>} work
   * @param {{ topic: string, failed: string }} texts topic of the errors, and what the status says before their kind
   */
  async repeat(work, { topic, failed }) {
    const backoff = new Backoff();
    /** @type {string | undefined} */
    let logged;
    const succeeded = () => {
      backoff.reset();
      logged = undefined;
    };
    while (!this.signal.aborted) {
      try {
        await work(await this.connected().ready({ signal: this.signal, timeout: Infinity }), succeeded);
      } catch (error) {
        if (this.signal.aborted) {
          return;
        }
        const kind = kindOf(error);
        this.status?.set({ fill: "red", shape: "ring", text: `${failed}: ${kind}` });
        if (kind !== logged) {
          this.#node.error(error, { topic });
        }
        logged = kind;
      }
      await backoff.wait(this.signal);
    }
  }

  /**
   * Ends the calls under way when the node is closed, then does this work before the connection is closed.
   * @param {() => Promise<void>} [work]
   */
  onClose(work) {
    this.#node.on("close", (_removed, done) => {
      this.#end.abort(new Error("the node was closed"));
      const left = Promise.resolve(work?.());
      this.connection?.leave(left);
      const end = () => {
        this.status?.close();
        done();
      };
      left.then(end, (error) => {
        this.#node.warn(`closing: ${error.message}`);
        end();
      });
    });
  }

  /**
   * Evaluates a property that an edit dialog has as text and type.
   * @param {string} value
   * @param {string} type
   * @param {Message} message
   * @returns {Promise<unknown>}
   */
  evaluate(value, type, message) {
    return new Promise((resolve, reject) => {
      this.#red.util.evaluateNodeProperty(value, type, this.#node, message, (error, result) =>
        error ? reject(error) : resolve(result),
      );
    });
  }
}

module.exports = { User };
