"use strict";
const { kindOf } = require("../lib/errors");
const { User } = require("../lib/user");
const { millisecondsOf } = require("../lib/values");

/** @type {import("../types/node-red").Status} */
const LEADER = { fill: "green", shape: "dot", text: "leader" };
/** @type {import("../types/node-red").Status} */
const NOT_LEADER = { fill: "blue", shape: "ring", text: "not leader" };
/** Time limit in milliseconds of the resignation when the node is closed. */
const RESIGN_TIMEOUT = 2_000;

/** @param {import("../types/node-red").NodeAPI} RED */
module.exports = function (RED) {
  RED.nodes.registerType("statestore-election", function (config) {
    RED.nodes.createNode(this, config);
    const node = this;
    const user = new User(RED, this, config);
    const { signal } = user;
    /** @type {import("statestore").Leadership | undefined} */
    let leadership;

    /**
     * Sends whether this node leads.
     * @param {object} details
     */
    function report(details) {
      const leads = leadership !== undefined;
      user.status?.set(leads ? LEADER : NOT_LEADER);
      node.send({ topic: config.election, payload: leads, event: leads ? "leader" : "not_leader", ...details });
    }

    /**
     * Campaigns once, and returns after the lead is lost.
     * @param {import("statestore").Client} client
     * @param {() => void} succeeded
     */
    async function lead(client, succeeded) {
      user.status?.set(NOT_LEADER);
      const election = client.election(config.election, { duration: millisecondsOf(config.duration) });
      const won = await election.campaign(config.value || client.clientId(), { signal });
      leadership = won;
      succeeded();
      report({ fencingToken: won.guard.token.text });
      const reason = await won.guard.lost({ signal }).catch((error) => {
        signal.throwIfAborted();
        return kindOf(error);
      });
      leadership = undefined;
      report({ reason });
    }

    if (user.connection !== undefined) {
      const running = user.started().then(
        () => {
          report({});
          return user.repeat(lead, { topic: config.election, failed: "not leader" });
        },
        () => {},
      );
      user.onClose(async () => {
        await running;
        await leadership?.resign({ timeout: RESIGN_TIMEOUT });
      });
    }
  });
};
