"use strict";
const { User } = require("../lib/user");
const { keyOf, millisecondsOf } = require("../lib/values");

/** @typedef {import("../types/node-red").Message} Message */
/** @typedef {import("../types/node-red").Send} Send */
/** @typedef {import("statestore").Guard} Guard */

/** Time limit in milliseconds of the releases when the node is closed. */
const RELEASE_TIMEOUT = 2_000;

/** @param {import("../types/node-red").NodeAPI} RED */
module.exports = function (RED) {
  RED.nodes.registerType("statestore-lock", function (config) {
    RED.nodes.createNode(this, config);
    const node = this;
    const user = new User(RED, this, config);
    const { signal } = user;
    /** The locks that this node has acquired. @type {Map<Guard, string>} */
    const held = new Map();

    function showHeld() {
      const [name] = held.values();
      const text = held.size === 1 ? `held: ${name}` : `held: ${held.size} locks`;
      user.status?.set(held.size === 0 ? undefined : { fill: "green", shape: "dot", text });
    }

    /**
     * Sends a message to the second output if the lock is lost.
     * @param {Guard} guard
     * @param {Message} message that of the acquisition
     * @param {Send} send
     */
    async function watch(guard, message, send) {
      const reason = await guard.lost().catch(() => "closed");
      held.delete(guard);
      const { locks } = user.connected();
      const id = guard.name.toString("hex");
      if (locks.get(id) === guard) {
        locks.delete(id);
      }
      if (signal.aborted) {
        return;
      }
      showHeld();
      if (reason !== "released") {
        user.status?.set({ fill: "red", shape: "ring", text: `lost: ${guard.name} (${reason})` });
        send([null, { ...message, event: "lost", reason }]);
      }
    }

    /**
     * @param {string | Uint8Array} name
     * @param {Message} message
     * @param {Send} send
     */
    async function acquire(name, message, send) {
      const connection = user.connected();
      const wait = millisecondsOf(config.wait);
      user.status?.set({ fill: "yellow", shape: "ring", text: `waiting: ${Buffer.from(name)}` });
      try {
        const client = await connection.ready({ signal, timeout: wait ?? Infinity });
        const guard = await client.lock(name, { duration: millisecondsOf(config.duration), wait, signal });
        held.set(guard, Buffer.from(name).toString());
        connection.locks.set(guard.name.toString("hex"), guard);
        message.lock = name;
        message.event = "acquired";
        message.fencingToken = guard.token.text;
        watch(guard, RED.util.cloneMessage(message), send).catch((error) => node.error(error, message));
      } finally {
        showHeld();
      }
      send([message, null]);
    }

    /**
     * Releases a lock that any node of the connection has acquired.
     * @param {string | Uint8Array} name
     * @param {Message} message
     * @param {Send} send
     */
    async function release(name, message, send) {
      const { locks } = user.connected();
      const guard = locks.get(Buffer.from(name).toString("hex"));
      message.lock = name;
      message.event = guard === undefined ? "not_held" : await guard.release({ signal });
      delete message.fencingToken;
      send([message, null]);
    }

    user.onInput(async (message, send) => {
      const name = keyOf(await user.evaluate(config.lock, config.lockType, message), "the name of the lock");
      const action = config.action === "message" ? message.action : config.action;
      if (action === "acquire") {
        await acquire(name, message, send);
      } else if (action === "release") {
        await release(name, message, send);
      } else {
        throw new TypeError('msg.action is neither "acquire" nor "release"');
      }
    });
    user.onClose(async () => {
      await Promise.allSettled([...held.keys()].map((guard) => guard.release({ timeout: RELEASE_TIMEOUT })));
    });
  });
};
