"use strict";
/** A connection that several nodes share. It is made in the background, and made again until it is closed. */
const { setTimeout: delay } = require("node:timers/promises");
const { TimedOutError, connect } = require("statestore");
const { isPermanent, kindOf, messageOf } = require("./errors");

/** @typedef {import("statestore").Client} Client */
/** @typedef {import("statestore").Settings} Settings */
/**
 * `closed` is for good, for a `reason` in a word.
 * @typedef {{ is: "connecting" | "connected" } | { is: "disconnected", error: unknown } | { is: "closed", error: unknown, reason: string }} State
 */
/** @typedef {{ client: Client } | { error: unknown }} Result */

/** Bounds of the pause between attempts, in milliseconds. */
const PAUSE = { least: 500, most: 30_000 };
/** Maximum time in milliseconds that a close waits for the users of the connection. */
const LEAVE_TIMEOUT = 4_000;
/** Time limit in milliseconds of {@link Connection.ready} by default, as that of the requests. */
const DEFAULT_TIMEOUT = 10_000;

/** Doubles a pause up to the most, and begins anew after a success. */
class Backoff {
  #pause = PAUSE.least;

  /**
   * Waits, unless the signal fires.
   * @param {AbortSignal} signal
   */
  async wait(signal) {
    const pause = this.#pause * (0.5 + Math.random() / 2);
    this.#pause = Math.min(2 * this.#pause, PAUSE.most);
    await delay(pause, undefined, { signal, ref: false }).catch(() => {});
  }

  reset() {
    this.#pause = PAUSE.least;
  }
}

class Connection {
  #settings;
  /** @type {State} */
  #state = { is: "connecting" };
  #end = new AbortController();
  /** @type {Client | undefined} */
  #client;
  /** Why there will be no client. @type {{ error: unknown } | undefined} */
  #failure;
  /** Calls that wait for the first connection. @type {Set<() => void>} */
  #waiting = new Set();
  /** @type {Set<(state: State) => void>} */
  #listeners = new Set();
  /** Guards of the lock nodes, by the hexadecimal names of their locks. @type {Map<string, import("statestore").Guard>} */
  locks = new Map();
  /** Work that a close waits for. @type {Set<Promise<unknown>>} */
  #leaving = new Set();
  /** @type {Promise<void> | undefined} */
  #connecting;

  /** @param {Settings} settings */
  constructor(settings) {
    this.#settings = settings;
  }

  get state() {
    return this.#state;
  }

  /** Begins to connect. Nothing rejects: failures become states. */
  open() {
    this.#connecting = this.#connect();
  }

  async #connect() {
    const { signal } = this.#end;
    const backoff = new Backoff();
    while (!signal.aborted) {
      try {
        const client = await connect({ ...this.#settings, signal });
        if (signal.aborted) {
          await client.close();
          return;
        }
        client.on("state", (state) => this.#follow(state));
        this.#client = client;
        this.#follow(client.state());
        this.#wake();
        return;
      } catch (error) {
        if (signal.aborted) {
          return;
        }
        if (isPermanent(error)) {
          this.#failure = { error };
          this.#become({ is: "closed", error, reason: kindOf(error) });
          this.#wake();
          return;
        }
        this.#become({ is: "disconnected", error });
      }
      await backoff.wait(signal);
    }
  }

  /** @param {import("statestore").ConnectionState} state */
  #follow(state) {
    if (this.#end.signal.aborted) {
      return;
    }
    if (state.is === "reconnecting") {
      this.#become({ is: "disconnected", error: state.reason });
    } else if (state.is === "closed") {
      this.#become({ is: "closed", error: state.reason, reason: state.lostReason });
    } else {
      this.#become({ is: state.is });
    }
  }

  /** @param {State} state */
  #become(state) {
    this.#state = state;
    for (const listener of this.#listeners) {
      listener(state);
    }
  }

  #wake() {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    waiting.forEach((wake) => wake());
  }

  /**
   * Calls the listener with the present state and each later one, and returns a function that ends this.
   * @param {(state: State) => void} listener
   */
  listen(listener) {
    this.#listeners.add(listener);
    listener(this.#state);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /**
   * Returns the client, and waits for the first connection. Later outages are the client's.
   * @param {{ signal?: AbortSignal, timeout?: number }} [options] without a limit if the time-out is `Infinity`
   * @returns {Promise<Client>}
   */
  ready({ signal, timeout = this.#settings.requestTimeout ?? DEFAULT_TIMEOUT } = {}) {
    return new Promise((resolve, reject) => {
      /** @type {NodeJS.Timeout | undefined} */
      let timer;
      const settle = () => {
        clearTimeout(timer);
        this.#waiting.delete(settle);
        signal?.removeEventListener("abort", settle);
        if (signal?.aborted) {
          reject(signal.reason);
        } else if (this.#client !== undefined) {
          resolve(this.#client);
        } else {
          reject(this.#failure?.error ?? this.#unavailable());
        }
      };
      if (this.#client !== undefined || this.#failure !== undefined || this.#end.signal.aborted || signal?.aborted) {
        settle();
        return;
      }
      this.#waiting.add(settle);
      signal?.addEventListener("abort", settle);
      if (timeout !== Infinity) {
        timer = setTimeout(settle, timeout);
      }
    });
  }

  #unavailable() {
    const cause = this.#state.is === "disconnected" ? this.#state.error : undefined;
    const reason = cause === undefined ? "" : `: ${messageOf(cause)}`;
    return new TimedOutError(`there is no connection to the store${reason}`, { outcome: "not_done", retryable: true, cause });
  }

  /**
   * Has the connection closed only after this work, such as the release of a lock.
   * @param {Promise<unknown>} work
   */
  leave(work) {
    const entry = work.catch(() => {}).finally(() => this.#leaving.delete(entry));
    this.#leaving.add(entry);
  }

  /** Closes the connection after the work of its users. */
  async close() {
    // The nodes of a flow are closed in no particular order, so their work may be added in this turn.
    await new Promise(setImmediate);
    await Promise.race([Promise.all(this.#leaving), delay(LEAVE_TIMEOUT, undefined, { ref: false })]);
    this.#end.abort();
    this.#wake();
    await this.#connecting;
    await this.#client?.close();
    this.#listeners.clear();
  }
}

module.exports = { Backoff, Connection };
