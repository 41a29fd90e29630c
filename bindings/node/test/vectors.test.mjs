/** The golden vectors, as far as they can be reached from JavaScript. */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as statestore from "statestore";

const { Hlc, InvalidArgumentError, StateStoreError } = statestore;
const vectors = (name) => JSON.parse(readFileSync(join(import.meta.dirname, "../../../tests/vectors", name), "utf8"));
/** Each character of a vector's string is a byte. */
const bytes = (text) => Buffer.from(text, "latin1");

test("versions are parsed and formatted as in the vectors", () => {
  let read = 0;
  for (const { name, text, decode, encode } of vectors("hlc.json").texts) {
    if (!isUtf8(bytes(text))) {
      continue; // no string of JavaScript is like that
    }
    const given = bytes(text).toString();
    if ("error" in decode) {
      assert.throws(() => Hlc.parse(given), InvalidArgumentError, name);
      continue;
    }
    const hlc = Hlc.parse(given);
    assert.equal(hlc.wall, BigInt(decode.wall_ms), name);
    assert.equal(hlc.counter, BigInt(decode.counter), name);
    assert.equal(hlc.node, bytes(decode.node_id).toString(), name);
    assert.equal(hlc.toString(), bytes(encode ?? text).toString(), name);
    assert.equal(JSON.stringify(hlc), JSON.stringify(hlc.toString()), name);
    read += 1;
  }
  assert(read > 5);
});

test("versions are ordered as in the vectors", () => {
  const rising = vectors("hlc.json").rising.map((text) => Hlc.parse(bytes(text).toString()));
  for (const [i, a] of rising.entries()) {
    for (const [j, b] of rising.entries()) {
      assert.equal(Math.sign(a.compare(b)), Math.sign(i - j), `${a} and ${b}`);
      assert.equal(a.equals(b), i === j, `${a} and ${b}`);
    }
  }
  assert.deepEqual([...rising].reverse().sort(Hlc.compare), rising);
});

test("there is a class for each kind of error, and no other", () => {
  const { kinds } = vectors("error_kinds.json");
  const classes = new Set(Object.keys(statestore).filter((name) => name.endsWith("Error") && name !== "StateStoreError"));
  for (const { name, retryable } of kinds) {
    const expected = name === "Syntax" ? "RequestSyntaxError" : `${name}Error`;
    assert(classes.delete(expected), `there is a class ${expected}`);
    const error = new statestore[expected]("why", { outcome: "not_done", cause: 7 });
    assert(error instanceof StateStoreError && error instanceof Error && error instanceof statestore[expected], expected);
    const { code, outcome, cause, message } = error;
    assert.deepEqual({ name: error.name, code, retryable: error.retryable, outcome, cause, message }, {
      name: expected,
      code: name,
      retryable,
      outcome: "not_done",
      cause: 7,
      message: "why",
    });
  }
  assert.deepEqual([...classes], []);
});

test("the reasons of a loss are those of every language", () => {
  const declarations = readFileSync(join(import.meta.dirname, "../index.d.ts"), "utf8");
  const [, words] = /^export type LostReason = (.*);$/m.exec(declarations);
  const { reasons } = vectors("lost_reasons.json");
  assert.deepEqual(words.split(" | "), reasons.map(({ word }) => JSON.stringify(word)));
});

test("other errors are not ours, and a bad value is a RangeError", () => {
  assert(!(new Error("x") instanceof StateStoreError));
  assert(!(new RangeError("x") instanceof InvalidArgumentError));
  assert(!(new statestore.TimedOutError("x") instanceof statestore.ClosedError));
  assert(new InvalidArgumentError("x") instanceof RangeError);
});
