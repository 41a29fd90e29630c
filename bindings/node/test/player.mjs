/** Plays scenarios; see tests/scenarios/README.md. */
import assert from "node:assert/strict";
import { connect, StateStoreError } from "statestore";

/** Bytes as the scenarios write them. */
const bytes = (text) => Buffer.from(text, "latin1");
const text = (buffer) => buffer.toString("latin1");

/** The names of calls and options in this language. */
const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

export class Player {
  #url;
  #clients = new Map();
  #things = new Map();
  #versions = new Map();

  constructor(url) {
    this.#url = url;
  }

  async play(step) {
    const on = step.on === undefined ? await this.#client(step.client ?? "a") : this.#things.get(step.on);
    assert(on !== undefined, `nothing was saved as ${step.on}`);
    const outcome = await this.#call(on, step).then(
      (result) => ({ result }),
      (error) => (error.results === undefined ? { error } : { result: error.results }),
    );
    if (step.error !== undefined) {
      this.#expectError(step.error, outcome);
      return;
    }
    if ("error" in outcome) {
      throw outcome.error;
    }
    if (step.result !== undefined) {
      this.#compare(worded(outcome.result), step.result, step.call);
    }
    if (step.save !== undefined) {
      this.#things.set(step.save, outcome.result?.is === "acquired" ? outcome.result.guard : outcome.result);
    }
  }

  async end() {
    await Promise.all([...this.#clients.values()].map((client) => client.close()));
  }

  async #client(name) {
    if (!this.#clients.has(name)) {
      this.#clients.set(name, await connect(this.#url));
    }
    return this.#clients.get(name);
  }

  async #call(on, step) {
    if (step.call === "transact") {
      return on.transact(this.#transaction(on, step.args[0]), this.#options(step.options));
    }
    const args = (step.args ?? []).map((argument) => this.#argument(argument));
    const options = this.#options(step.options);
    if (step.call === "scan") {
      const keys = [];
      for await (const key of on.scan(...args, options)) {
        keys.push(key);
      }
      return keys.sort(Buffer.compare);
    }
    return on[camel(step.call)](...args, ...(options === undefined ? [] : [options]));
  }

  #transaction(client, operations) {
    const transaction = client.transaction();
    for (const [call, ...rest] of operations) {
      const options = this.#options(rest.pop());
      assert.equal(transaction[call](...rest.map(bytes), options), transaction);
    }
    assert.equal(transaction.length, operations.length);
    return transaction;
  }

  #argument(argument) {
    if (typeof argument === "string") {
      return bytes(argument);
    }
    if (Array.isArray(argument)) {
      return argument.map((item) => this.#argument(item));
    }
    if ("append" in argument) {
      return (old) => Buffer.concat([old?.value ?? Buffer.alloc(0), bytes(argument.append)]);
    }
    if (argument.leave === true) {
      return () => undefined;
    }
    return this.#version(argument.ref);
  }

  #options(options) {
    if (options === undefined) {
      return undefined;
    }
    const option = ([name, value]) => {
      if (value?.ref !== undefined) {
        return [camel(name), this.#version(value.ref)];
      }
      if (value?.if_version !== undefined) {
        return [camel(name), { ifVersion: this.#version(value.if_version.ref) }];
      }
      return [camel(name), name === "holder" ? bytes(value) : name === "expires_in" && value === "never" ? Infinity : value];
    };
    return Object.fromEntries(Object.entries(options).map(option));
  }

  #version(name) {
    assert(this.#versions.has(name), `no version was saved as ${name}`);
    return this.#versions.get(name);
  }

  #expectError(expected, { error }) {
    assert(error !== undefined, `it should have failed with ${expected.kind}`);
    assert(error instanceof StateStoreError, error);
    assert.equal(error.code, expected.kind, error.message);
    if (expected.outcome !== undefined) {
      assert.equal(error.outcome, expected.outcome, error.message);
    }
    if (expected.operation !== undefined) {
      assert.equal(error.operation, expected.operation, error.message);
    }
  }

  #compare(found, expected, where) {
    if (Array.isArray(expected)) {
      assert(Array.isArray(found), `${where} is a list`);
      assert.equal(found.length, expected.length, `length of ${where}`);
      expected.forEach((item, index) => this.#compare(found[index], item, `${where}[${index}]`));
    } else if (expected === "never") {
      assert.equal(found, Infinity, where);
    } else if (expected === null || typeof expected !== "object") {
      assert.equal(found instanceof Buffer ? text(found) : (found ?? null), expected, where);
    } else if ("save" in expected) {
      assert.equal(found?.constructor.name, "Hlc", where);
      this.#versions.set(expected.save, found);
    } else if ("same" in expected) {
      assert(found.equals(this.#version(expected.same)), `${where}: ${found}`);
    } else if ("newer" in expected) {
      assert(found.compare(this.#version(expected.newer)) > 0, `${where}: ${found}`);
    } else if ("absent" in expected) {
      assert.equal(found ?? null, null, where);
    } else if ("at_most" in expected) {
      assert(found > 0 && found <= expected.at_most, `${where}: ${found}`);
    } else {
      assert(found !== null && typeof found === "object", `${where} is ${found}`);
      for (const [name, member] of Object.entries(expected)) {
        this.#compare(name === "holder" ? found.holder.name : found[camel(name)], member, `${where}.${name}`);
      }
    }
  }
}

/** The outcome of a release is its word alone in this language, and entries are a list. */
function worded(result) {
  if (result instanceof Array && "snapshot" in result) {
    return { entries: [...result], snapshot: result.snapshot };
  }
  if (result instanceof Array) {
    return result.map((item) => (item instanceof StateStoreError ? { error: { kind: item.code, outcome: item.outcome } } : item));
  }
  return result === "released" || result === "not_held" ? { is: result } : result;
}
