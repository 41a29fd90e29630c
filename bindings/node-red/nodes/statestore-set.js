"use strict";
const { User } = require("../lib/user");
const { bytesOf, hlcOf, keyOf, millisecondsOf } = require("../lib/values");

/** @typedef {import("../types/node-red").Message} Message */
/** @typedef {import("statestore").SetOptions} SetOptions */

/**
 * Returns the condition of an edit dialog. A message without a version stands for an absent key.
 * @param {string} condition
 * @param {Message} message
 * @returns {SetOptions["condition"]}
 */
function conditionOf(condition, message) {
  switch (condition) {
    case "if_absent":
    case "if_absent_or_equal":
      return condition;
    case "if_version":
      return message.version === null ? "if_absent" : { ifVersion: hlcOf(message.version, "msg.version") };
    default:
      return "always";
  }
}

/** @param {import("../types/node-red").NodeAPI} RED */
module.exports = function (RED) {
  RED.nodes.registerType("statestore-set", function (config) {
    RED.nodes.createNode(this, config);
    const user = new User(RED, this, config);
    const { signal } = user;

    user.onInput(async (message, send) => {
      const key = keyOf(await user.evaluate(config.key, config.keyType, message), "the key");
      const value = bytesOf(await user.evaluate(config.value, config.valueType, message), "the value");
      /** @type {SetOptions} */
      const options = {
        condition: conditionOf(config.condition, message),
        expiresIn: millisecondsOf(config.expiresIn),
        fencingToken: message.fencingToken === undefined ? undefined : hlcOf(message.fencingToken, "msg.fencingToken"),
        coalesce: config.coalesce === true,
        timeout: millisecondsOf(config.timeout),
        signal,
      };
      const client = await user.connected().ready({ signal, timeout: options.timeout });
      const outcome = await client.set(key, value, options);
      message.key = key;
      message.applied = outcome.applied;
      message.version = outcome.version?.text ?? null;
      send(message);
    });
    user.onClose();
  });
};
