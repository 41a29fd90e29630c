"use strict";
/** The configuration node: one connection for all nodes that name it. */
const { mkdtempSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { Connection } = require("../lib/connection");
const { messageOf } = require("../lib/errors");
const { millisecondsOf } = require("../lib/values");

/** @typedef {import("../types/node-red").Config} Config */

/** Certificates and keys of the credentials in a private folder, because the client reads files for each connection. */
class PemFiles {
  /** @type {string | undefined} */
  #folder;

  /**
   * Returns the path of a file with this text; `undefined` without text.
   * @param {string} name
   * @param {string | undefined} text
   */
  write(name, text) {
    if (!text) {
      return undefined;
    }
    this.#folder ??= mkdtempSync(join(tmpdir(), "node-red-statestore-"));
    const path = join(this.#folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }

  remove() {
    if (this.#folder !== undefined) {
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }
}

/**
 * @param {Config} config
 * @param {Record<string, string | undefined>} credentials
 * @param {PemFiles} files
 */
function settingsOf(config, credentials, files) {
  const isPem = config.tls === "pem";
  const isFiles = config.tls === "files";
  /** @param {string} name */
  const fileOf = (name) => (isPem ? files.write(name, credentials[name]) : (isFiles && config[`${name}File`]) || undefined);
  return {
    url: config.url,
    clientId: config.clientId || undefined,
    userName: credentials.user || undefined,
    password: credentials.password || undefined,
    caFile: fileOf("ca"),
    certFile: fileOf("cert"),
    keyFile: fileOf("key"),
    serverName: ((isPem || isFiles) && config.serverName) || undefined,
    requestTimeout: millisecondsOf(config.timeout),
  };
}

/**
 * Returns a listener that logs each change of the connection once, not each attempt during an outage.
 * @param {import("../types/node-red").Node} node
 * @returns {(state: import("../lib/connection").State) => void}
 */
function logger(node) {
  /** @type {string | undefined} */
  let logged;
  return (state) => {
    const before = logged;
    logged = state.is === "connecting" ? before : state.is;
    if (logged === before) {
      return;
    }
    if (state.is === "connected") {
      node.log("connected to the store");
    } else if (state.is === "disconnected") {
      node.warn(`no connection to the store: ${messageOf(state.error)}`);
    } else if (state.is === "closed") {
      node.error(`the connection to the store has ended (${state.reason}): ${messageOf(state.error)}`);
    }
  };
}

/** @param {import("../types/node-red").NodeAPI} RED */
module.exports = function (RED) {
  RED.nodes.registerType(
    "statestore-config",
    function (config) {
      RED.nodes.createNode(this, config);
      const files = new PemFiles();
      const connection = new Connection(settingsOf(config, this.credentials ?? {}, files));
      Object.assign(this, { connection });
      connection.listen(logger(this));
      connection.open();
      this.on("close", (_removed, done) => {
        connection
          .close()
          .catch((error) => this.warn(`closing: ${error.message}`))
          .finally(() => {
            files.remove();
            done();
          });
      });
    },
    {
      credentials: {
        user: { type: "text" },
        password: { type: "password" },
        ca: { type: "text" },
        cert: { type: "text" },
        key: { type: "password" },
      },
    },
  );
};
