/** Versions and fencing tokens. */
import type { Hlc as Declared } from "../index.js";
import { InvalidArgumentError } from "./errors.js";
import { native } from "./native.js";

/** Only this module creates them from unchecked texts. */
const KEY = Symbol("statestore.hlc");

export class Hlc implements Declared {
  /** The only member that is enumerable: what `structuredClone` and a message to another thread keep of it, and what is compared. */
  readonly text: string;
  readonly #text: string;
  /** Read when it is asked for: most versions are only compared or passed on. */
  #parts: { wall: bigint; counter: bigint; node: string } | undefined;

  constructor(key: symbol, text: string) {
    if (key !== KEY) {
      throw new TypeError("an Hlc has no public constructor; use Hlc.parse");
    }
    this.text = text;
    this.#text = text;
  }

  static parse(text: string): Hlc {
    if (typeof text !== "string") {
      throw new TypeError(`text must be a string, not ${typeof text}`);
    }
    try {
      return new Hlc(KEY, native.parseHlc(text).text);
    } catch (cause) {
      throw new InvalidArgumentError(`text ${JSON.stringify(text)} is not a version: ${(cause as Error).message}`, { cause });
    }
  }

  static compare(a: Hlc, b: Hlc): number {
    return native.compareHlc(Hlc.#textOf("a", a), Hlc.#textOf("b", b));
  }

  static #textOf(name: string, value: Hlc): string {
    if (!Hlc.is(value)) {
      throw new TypeError(`${name} must be an Hlc, not ${value === null ? "null" : typeof value}`);
    }
    return value.#text;
  }

  /** Whether something is one. */
  static is(value: unknown): value is Hlc {
    return typeof value === "object" && value !== null && #text in value;
  }

  get wall(): bigint {
    return this.#read().wall;
  }

  get counter(): bigint {
    return this.#read().counter;
  }

  get node(): string {
    return this.#read().node;
  }

  #read(): { wall: bigint; counter: bigint; node: string } {
    this.#parts ??= native.parseHlc(this.#text);
    return this.#parts;
  }

  compare(other: Hlc): number {
    return native.compareHlc(this.#text, Hlc.#textOf("other", other));
  }

  equals(other: Hlc): boolean {
    return this.#text === Hlc.#textOf("other", other);
  }

  toString(): string {
    return this.#text;
  }

  toJSON(): string {
    return this.#text;
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `Hlc ${this.#text}`;
  }
}

/** One of the native half's texts. */
export function hlc(text: unknown): Hlc {
  return new Hlc(KEY, text as string);
}
