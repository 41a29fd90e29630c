"use strict";
const { User } = require("../lib/user");
const { keyOf, valueIn } = require("../lib/values");

/** @param {import("../types/node-red").NodeAPI} RED */
module.exports = function (RED) {
  RED.nodes.registerType("statestore-get", function (config) {
    RED.nodes.createNode(this, config);
    const user = new User(RED, this, config);
    const { signal } = user;

    user.onInput(async (message, send) => {
      const key = keyOf(await user.evaluate(config.key, config.keyType, message), "the key");
      const client = await user.connected().ready({ signal });
      const entry = await client.get(key, { signal });
      message.key = key;
      message.exists = entry !== null;
      message.payload = entry === null ? null : valueIn(entry.value, config.format);
      message.version = entry === null ? null : entry.version.text;
      send(message);
    });
    user.onClose();
  });
};
