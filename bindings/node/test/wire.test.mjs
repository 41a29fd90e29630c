/** The golden vectors (tests/vectors) on the wire: the scripted peer plays them to a client. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, Hlc, StateStoreError } from "statestore";
import { peerOf, plan } from "./peer.mjs";

/** No healthy step comes near it, so that a hang becomes a failure; in milliseconds. */
const HANG_TIMEOUT = 30_000;

const bytes = (text) => Buffer.from(text, "latin1");
const written = (buffer) => buffer.toString("latin1");

// Not `requests_beyond_53_bits`, whose numbers JavaScript does not have.
for (const play of ["requests", "replies", "errors", "responses", "notifications", "topics", "many"]) {
  test(`the peer plays ${play}`, async (t) => {
    const peer = await peerOf(t, play);
    for (const { client_id: clientId, actions } of plan(play)) {
      const client = await connect(peer.url, { clientId });
      try {
        const player = new Player(client);
        for (const action of actions) {
          assert.deepEqual(await player.play(action), action.gives, action.name);
        }
      } finally {
        await client.close();
      }
    }
    await peer.end();
  });
}

/** Makes the calls of a plan; what they give is written as the plan writes it. */
class Player {
  #client;
  #observer;

  constructor(client) {
    this.#client = client;
  }

  async play(action) {
    try {
      return await this.#call(action);
    } catch (error) {
      assert(error instanceof StateStoreError, error);
      const says = written(Buffer.from(error.message));
      const part = action.gives.says;
      const { code: kind, outcome, retryable } = error;
      return { is: "error", kind, outcome, retryable, says: part !== undefined && says.includes(part) ? part : says };
    }
  }

  async #call(action) {
    const key = bytes(action.key ?? "");
    const value = bytes(action.value ?? "");
    switch (action.call) {
      case "set": {
        const { condition, persist, expires_in: expiresIn, fencing_token: token } = action;
        const fencingToken = token && Hlc.parse(token);
        const { applied, version } = await this.#client.set(key, value, { condition, persist, expiresIn, fencingToken });
        return { is: applied ? "applied" : "not_applied", version: `${version}` };
      }
      case "get": {
        const entry = await this.#client.get(key);
        return entry === null ? { is: "absent" } : plain({ is: "value", value: entry.value, version: entry.version });
      }
      case "get_many": {
        const found = await this.#client.getMany(action.keys.map(bytes));
        const entries = found.map((entry) => entry && plain({ value: entry.value, version: entry.version }));
        return { is: "entries", entries, snapshot: found.snapshot };
      }
      case "del":
        return plain(await this.#client.del(key));
      case "vdel":
        return plain(await this.#client.vdel(key, value));
      case "scan": {
        const keys = [];
        for await (const found of this.#client.scan(bytes(action.pattern))) {
          keys.push(written(found));
        }
        return { is: "keys", keys };
      }
      case "observe":
        this.#observer = await this.#client.observe(key);
        return { is: "observing" };
      case "next":
        return plain(await this.#observer.next({ signal: AbortSignal.timeout(HANG_TIMEOUT) }));
      case "stop":
        this.#observer.close();
        return { is: "stopped" };
      case "counters": {
        const { notifications, staleNotifications, malformedMessages } = this.#client.counters();
        return {
          is: "counters",
          notifications,
          stale_notifications: staleNotifications,
          malformed_messages: malformedMessages,
        };
      }
      default:
        throw new Error(`no call is named ${action.call}`);
    }
  }
}

function plain(result) {
  const plainer = { ...result };
  if ("value" in plainer) {
    plainer.value = written(plainer.value);
  }
  if ("version" in plainer) {
    plainer.version = plainer.version && `${plainer.version}`;
  }
  return plainer;
}
