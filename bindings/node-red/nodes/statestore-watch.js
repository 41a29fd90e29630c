"use strict";
const { User } = require("../lib/user");
const { valueIn } = require("../lib/values");

/** @typedef {import("../types/node-red").Message} Message */
/** @typedef {import("statestore").Client} Client */
/** @typedef {import("statestore").Observation | import("statestore").MatchObservation} Observation */

/**
 * Begins to observe what an edit dialog names.
 * @param {Client} client
 * @param {import("../types/node-red").Config} config
 * @param {AbortSignal} signal
 * @returns {Promise<import("statestore").Follower<Observation>>}
 */
function observe(client, config, signal) {
  return config.mode === "pattern"
    ? client.observeMatching(config.key, { signal })
    : client.observe(config.key, { signal, initial: true, overflow: config.overflow === "all" ? "all" : "latest" });
}

/**
 * Returns the message for an observation of a key or a pattern.
 * @param {Observation} observation
 * @param {import("../types/node-red").Config} config
 * @returns {Message}
 */
function messageOf(observation, config) {
  /** @type {Message} */
  const message = { event: observation.is, topic: config.key, payload: null };
  if (observation.is === "set" || observation.is === "deleted") {
    message.topic = "key" in observation ? observation.key.toString() : config.key;
    message.version = observation.version?.text ?? null;
  }
  if (observation.is === "set") {
    message.payload = valueIn(observation.value, config.format);
  } else if (observation.is === "lagged") {
    message.payload = observation.count;
  }
  return message;
}

/** @param {import("../types/node-red").NodeAPI} RED */
module.exports = function (RED) {
  RED.nodes.registerType("statestore-watch", function (config) {
    RED.nodes.createNode(this, config);
    const node = this;
    const user = new User(RED, this, config);
    const { signal } = user;

    /**
     * Sends an observation unless the edit dialog leaves the present state out.
     * @param {Observation} observation
     * @param {boolean} isPresent whether the present state is not complete yet
     */
    function report(observation, isPresent) {
      if (isPresent && !config.initial) {
        return;
      }
      try {
        node.send(messageOf(observation, config));
      } catch (error) {
        const key = "key" in observation ? observation.key.toString() : config.key;
        node.error(error, { topic: key, event: observation.is });
      }
    }

    /**
     * @param {Client} client
     * @param {() => void} succeeded
     */
    async function follow(client, succeeded) {
      const observer = await observe(client, config, signal);
      user.status?.set();
      let isPresent = true;
      for await (const observation of observer) {
        succeeded();
        report(observation, isPresent);
        if (isPresent && config.mode !== "pattern" && (observation.is === "set" || observation.is === "deleted")) {
          report({ is: "complete" }, isPresent);
          isPresent = false;
        }
        isPresent &&= observation.is !== "complete";
      }
      throw observer.error() ?? new Error(`the watch has ended: ${observer.lostReason()}`);
    }

    if (user.connection !== undefined) {
      const running = user.started().then(
        () => user.repeat(follow, { topic: config.key, failed: "not watching" }),
        () => {},
      );
      user.onClose(() => running);
    }
  });
};
