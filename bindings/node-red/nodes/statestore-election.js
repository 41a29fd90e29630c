"use strict";
const { Backoff } = require("../lib/connection");
const { kindOf } = require("../lib/status");
const { User } = require("../lib/user");
const { millisecondsOf } = require("../lib/values");

/** Time limit in milliseconds of the resignation when the node is closed. */
const RESIGN_TIMEOUT = 2_000;

/** @param {import("../types/node-red").NodeAPI} RED */
module.exports = function (RED) {
  RED.nodes.registerType("statestore-election", function (config) {
    RED.nodes.createNode(this, config);
    const node = this;
    const user = new User(RED, this, config);
    const { signal } = user;
    const backoff = new Backoff();
    /** @type {import("statestore").Leadership | undefined} */
    let leadership;
    /** The last failure in the log: only another one is logged again. @type {string | undefined} */
    let logged;

    /**
     * Sends whether this node leads.
     * @param {object} details
     */
    function report(details) {
      const leads = leadership !== undefined;
      user.status?.set(leads ? { fill: "green", shape: "dot", text: "leader" } : { fill: "blue", shape: "ring", text: "not leader" });
      node.send({ topic: config.election, payload: leads, event: leads ? "leader" : "not_leader", ...details });
    }

    /** Campaigns once, and returns after the lead is lost. @param {import("statestore").Client} client */
    async function lead(client) {
      const election = client.election(config.election, { duration: millisecondsOf(config.duration) });
      const won = await election.campaign(config.value || client.clientId(), { signal });
      leadership = won;
      backoff.reset();
      logged = undefined;
      report({ fencingToken: won.guard.token.text });
      const reason = await won.guard.lost({ signal }).catch((error) => {
        signal.throwIfAborted();
        return kindOf(error);
      });
      leadership = undefined;
      report({ reason });
    }

    /** @param {import("../lib/connection").Connection} connection */
    async function run(connection) {
      report({});
      while (!signal.aborted) {
        try {
          await lead(await connection.ready({ signal, timeout: Infinity }));
        } catch (error) {
          if (signal.aborted) {
            return;
          }
          const kind = kindOf(error);
          user.status?.set({ fill: "red", shape: "ring", text: `not leader: ${kind}` });
          if (kind !== logged) {
            node.error(error, { topic: config.election });
          }
          logged = kind;
        }
        await backoff.wait(signal);
      }
    }

    const { connection } = user;
    if (connection !== undefined) {
      const running = user.started().then(
        () => run(connection),
        () => {},
      );
      user.onClose(async () => {
        await running;
        await leadership?.resign({ timeout: RESIGN_TIMEOUT });
      });
    }
  });
};
