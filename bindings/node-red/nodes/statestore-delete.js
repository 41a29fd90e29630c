"use strict";
const { User } = require("../lib/user");
const { bytesOf, hlcOf, keyOf } = require("../lib/values");

/** @param {import("../types/node-red").NodeAPI} RED */
module.exports = function (RED) {
  RED.nodes.registerType("statestore-delete", function (config) {
    RED.nodes.createNode(this, config);
    const user = new User(RED, this, config);
    const { signal } = user;

    user.onInput(async (message, send) => {
      const key = keyOf(await user.evaluate(config.key, config.keyType, message), "the key");
      /** @type {import("statestore").DelOptions} */
      const options = {
        fencingToken: message.fencingToken === undefined ? undefined : hlcOf(message.fencingToken, "msg.fencingToken"),
        ifVersion: config.condition === "if_version" ? hlcOf(message.version, "msg.version") : undefined,
        signal,
      };
      const value = config.condition === "if_value" ? bytesOf(message.payload, "msg.payload") : undefined;
      const client = await user.connected().ready({ signal });
      const outcome = value === undefined ? await client.del(key, options) : await client.vdel(key, value, options);
      message.key = key;
      message.outcome = outcome.is;
      message.version = outcome.is === "absent" ? null : (outcome.version?.text ?? null);
      send(message);
    });
    user.onClose();
  });
};
