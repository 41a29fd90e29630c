"use strict";
/**
 * A context store of Node-RED whose values are in the state store, so that several instances share them. In settings.js:
 *
 *     contextStorage: {
 *       default: "memory",
 *       memory: { module: "memory" },
 *       shared: { module: require("node-red-contrib-statestore/context"), config: { url: "mqtt://127.0.0.1:1883" } },
 *     },
 *
 * The access is asynchronous only: flows pass a callback.
 */
const { setTimeout: delay } = require("node:timers/promises");
const { Connection } = require("./lib/connection");
const { parse, read, write } = require("./lib/path");

/** @typedef {(error?: unknown, ...values: any[]) => void} Callback */
/**
 * `prefix` begins the keys in the store, `clean` deletes the contexts of flows and nodes that this instance does not have, `timeout` is the
 * limit of a request in milliseconds. All others are settings of `connect` of the package `statestore`.
 * @typedef {import("statestore").Settings & { prefix?: string, clean?: boolean, timeout?: number, settings?: object }} Config
 */

const GLOBAL = "global";
/** Without the characters of a pattern. */
const PREFIX = /^[^*?[\]\\]+$/;

/**
 * Escapes a scope or key, so that it has no slash and no character of a pattern.
 * @param {string} part
 */
function escape(part) {
  return encodeURIComponent(part).replaceAll("*", "%2A");
}

/** @param {string} text */
function warn(text) {
  process.emitWarning(text, { type: "StateStoreContext" });
}

class StateStoreContext {
  #prefix;
  #cleans;
  #timeout;
  #connection;
  /** The last write under way of each key, which a later call of this instance follows. @type {Map<string, Promise<unknown>>} */
  #writes = new Map();

  /** @param {Config} config */
  constructor({ prefix = "node-red", clean = false, timeout = 10_000, settings: _settings, ...settings }) {
    if (!PREFIX.test(prefix)) {
      throw new TypeError(`the prefix ${JSON.stringify(prefix)} is empty, or has one of * ? [ ] \\`);
    }
    this.#prefix = prefix;
    this.#cleans = clean;
    this.#timeout = timeout;
    this.#connection = new Connection({ ...settings, requestTimeout: timeout });
  }

  /** Connects. Without a connection it resolves after the time-out: flows start during an outage, too. */
  async open() {
    this.#connection.open();
    try {
      await this.#connection.ready();
    } catch (error) {
      const { state } = this.#connection;
      if (state.is === "closed") {
        throw state.error;
      }
      warn(`the flows start without the context store: ${error}`);
    }
  }

  async close() {
    await Promise.race([this.#written(), delay(this.#timeout, undefined, { ref: false })]);
    await this.#connection.close();
  }

  async #written() {
    await Promise.all(this.#writes.values());
  }

  /**
   * @param {string} scope
   * @param {string | string[]} key
   * @param {Callback} callback
   */
  get(scope, key, callback) {
    this.#answer(callback, async () => {
      const paths = [key].flat().map(parse);
      const entries = paths.map(([name]) => this.#entry(scope, name));
      await Promise.all(entries.map((entry) => this.#writes.get(entry)));
      const client = await this.#connection.ready();
      const found = await client.getMany(entries);
      return paths.map(([, ...parts], index) => {
        const entry = found[index];
        return entry ? read(JSON.parse(entry.value.toString()), parts) : undefined;
      });
    });
  }

  /**
   * Stores values, or deletes those that are `undefined`. Without a callback, a failure is a warning of the process.
   * @param {string} scope
   * @param {string | string[]} key
   * @param {unknown} value
   * @param {Callback} [callback]
   */
  set(scope, key, value, callback = (error) => error && warn(`a value of the context is not stored: ${error}`)) {
    this.#answer(callback, async () => {
      const keys = [key].flat();
      const values = Array.isArray(key) && Array.isArray(value) ? value : [value];
      // All of them are read before the first write.
      const writes = keys.map((path, index) => this.#write(scope, path, index < values.length ? values[index] : null));
      await Promise.all(writes.map(([entry, work]) => this.#follow(entry, work)));
      return [];
    });
  }

  /**
   * Returns the key of the store that a write changes, and the write.
   * @param {string} scope
   * @param {string} path
   * @param {unknown} value
   * @returns {[entry: string, work: () => Promise<unknown>]}
   */
  #write(scope, path, value) {
    const [name, ...parts] = parse(path);
    const entry = this.#entry(scope, name);
    const json = JSON.stringify(value);
    if (json === undefined && value !== undefined) {
      throw new TypeError(`a ${typeof value} has no JSON`);
    }
    return [
      entry,
      async () => {
        const client = await this.#connection.ready();
        if (parts.length > 0) {
          return client.update(entry, (old) => {
            const whole = old === null ? undefined : JSON.parse(old.value.toString());
            return JSON.stringify(write(whole, parts, json === undefined ? undefined : JSON.parse(json)));
          });
        }
        return json === undefined ? client.del(entry) : client.set(entry, json);
      },
    ];
  }

  /**
   * Does a write after the earlier ones of the same key.
   * @param {string} entry
   * @param {() => Promise<unknown>} work
   */
  #follow(entry, work) {
    const written = (this.#writes.get(entry) ?? Promise.resolve()).then(work);
    const settled = written
      .catch(() => {})
      .finally(() => {
        if (this.#writes.get(entry) === settled) {
          this.#writes.delete(entry);
        }
      });
    this.#writes.set(entry, settled);
    return written;
  }

  /**
   * @param {string} scope
   * @param {Callback} callback
   */
  keys(scope, callback) {
    this.#answer(callback, async () => {
      await this.#written();
      const client = await this.#connection.ready();
      const start = `${this.#prefix}/${escape(scope)}/`;
      const keys = [];
      for await (const entry of client.scan(`${start}*`)) {
        keys.push(decodeURIComponent(entry.toString().slice(start.length)));
      }
      return [keys];
    });
  }

  /**
   * Deletes the entries of a scope.
   * @param {string} scope
   */
  async delete(scope) {
    await this.#deleteMatching(`${this.#prefix}/${escape(scope)}/*`, () => true);
  }

  /**
   * With `clean`, deletes the contexts of flows and nodes that this instance does not have. Otherwise they may be those of another instance.
   * @param {string[]} activeNodes
   */
  async clean(activeNodes) {
    if (!this.#cleans || this.#connection.state.is !== "connected") {
      return;
    }
    const active = new Set(activeNodes.map(escape));
    const start = `${this.#prefix}/`;
    const isOld = (/** @type {string} */ entry) => {
      const [scope = ""] = entry.slice(start.length).split("/");
      // A node is in the scope NODE:FLOW.
      return scope !== GLOBAL && !active.has(scope.split("%3A")[0] ?? "");
    };
    try {
      await this.#deleteMatching(`${start}*`, isOld);
    } catch (error) {
      warn(`contexts of former nodes are not deleted: ${error}`);
    }
  }

  /**
   * @param {string} pattern
   * @param {(entry: string) => boolean} isDeleted
   */
  async #deleteMatching(pattern, isDeleted) {
    await this.#written();
    const client = await this.#connection.ready();
    const entries = [];
    for await (const entry of client.scan(pattern)) {
      if (isDeleted(entry.toString())) {
        entries.push(entry);
      }
    }
    await client.delMany(entries);
  }

  /**
   * @param {string} scope
   * @param {string} key
   */
  #entry(scope, key) {
    return `${this.#prefix}/${escape(scope)}/${escape(key)}`;
  }

  /**
   * Passes the values or the error of some work to a callback.
   * @param {Callback} callback
   * @param {() => Promise<unknown[]>} work
   */
  #answer(callback, work) {
    if (typeof callback !== "function") {
      throw new Error("this context store is asynchronous only: pass a callback");
    }
    work().then(
      // An exception of a callback is not an error of the store.
      (values) => setImmediate(callback, null, ...values),
      (error) => setImmediate(callback, error),
    );
  }
}

/** @param {Config} config */
module.exports = (config) => new StateStoreContext(config);
Object.defineProperty(module.exports, "toString", { value: () => "statestore" });
