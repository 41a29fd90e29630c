/** The parts of Node-RED's runtime API that the nodes of this package use. */
import type { EventEmitter } from "node:events";

/** A message of a flow. */
export interface Message {
  payload?: unknown;
  topic?: unknown;
  [property: string]: unknown;
}

/** A status below a node; an empty object removes it. */
export interface Status {
  fill?: "red" | "green" | "yellow" | "blue" | "grey";
  shape?: "ring" | "dot";
  text?: string;
}

/** Sends a message to the outputs: one, or a list with a message or null for each output. */
export type Send = (message: Message | (Message | null)[]) => void;
export type Done = (error?: unknown) => void;

export interface Node extends EventEmitter {
  id: string;
  type: string;
  name?: string;
  credentials?: Record<string, string | undefined>;
  send: Send;
  status(status: Status): void;
  log(text: string): void;
  warn(text: string): void;
  error(error: unknown, message?: Message): void;
  on(event: "input", listener: (message: Message, send: Send, done: Done) => void): this;
  on(event: "close", listener: (removed: boolean, done: () => void) => void): this;
}

/** The configuration of a node: each of the properties in its `defaults`. */
export interface Config {
  id: string;
  type: string;
  name?: string;
  [property: string]: any;
}

export interface NodeAPI {
  events: EventEmitter;
  nodes: {
    createNode(node: Node, config: Config): void;
    getNode(id: string): any;
    registerType(type: string, constructor: (this: Node, config: Config) => void, options?: object): void;
  };
  util: {
    cloneMessage<T>(message: T): T;
    evaluateNodeProperty(
      value: string,
      type: string,
      node: Node,
      message: Message,
      callback: (error: Error | null, result: unknown) => void,
    ): void;
  };
}
