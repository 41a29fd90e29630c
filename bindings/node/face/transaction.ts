/** Several writes, of which all are carried out or none. */
import type { Data, Transaction as Declared, TransactionDelOptions, TransactionSetOptions } from "../index.js";
import { data, delInput, options, setInput } from "./arguments.js";
import { inspected, shown, type Inspect, type InspectOptions } from "./inspection.js";
import type { OperationInput } from "./native.js";

export class Transaction implements Declared {
  readonly #operations: OperationInput[] = [];

  /** The operations so far. */
  static operations(transaction: Transaction): OperationInput[] {
    return transaction.#operations;
  }

  static is(value: unknown): value is Transaction {
    return typeof value === "object" && value !== null && #operations in value;
  }

  get length(): number {
    return this.#operations.length;
  }

  set(key: Data, value: Data, given?: TransactionSetOptions): this {
    const set = setInput(options("transaction.set", given));
    this.#operations.push({ key: copy("key", key), value: copy("value", value), set });
    return this;
  }

  del(key: Data, given?: TransactionDelOptions): this {
    const del = delInput(options("transaction.del", given));
    this.#operations.push({ key: copy("key", key), del });
    return this;
  }

  [inspected](_: number, options: InspectOptions, inspect: Inspect): string {
    return shown("Transaction", options, inspect, { length: this.length });
  }
}

/** The caller may change its bytes before the transaction is sent. */
function copy(name: string, value: unknown): Uint8Array {
  return Uint8Array.from(data(name, value));
}
