/** The native half, as Rust gives it; see src/. */
import type { DelOutcome, SetOutcome } from "../index.js";
import { load } from "./platform.js";

/** Why an operation has no result. */
export interface Failure {
  kind: string;
  outcome: "not_done" | "unknown";
  retryable: boolean;
  message: string;
  /** The messages of what caused it, the nearest first. */
  causes: string[];
  /** The number of the system's error behind it. */
  errno?: number;
  /** Which one of a transaction. */
  operation?: number;
  /** Of several writes: what each did. */
  results?: ({ outcome: SetOutcome | DelOutcome } | { failure: Failure })[];
}

/** The number of an operation that has begun, or why it could not begin. */
export type Begun = number | Failure;

export interface SetInput extends DelInput {
  condition?: string;
  expiresIn?: number;
  persist?: boolean;
  coalesce?: boolean;
}

export interface DelInput {
  fencingToken?: string;
  ifVersion?: string;
  timeout?: number;
  retry?: string;
}

export interface TransactInput {
  persist?: boolean;
  timeout?: number;
  retry?: string;
  throughIntents?: boolean;
}

/** A SET if it has a value, otherwise a DEL. */
export interface OperationInput {
  key: Uint8Array;
  value?: Uint8Array;
  set?: SetInput;
  del?: DelInput;
}

export interface UpdateInput {
  expiresIn?: number;
  persist?: boolean;
  timeout?: number;
}

export interface LockInput {
  duration?: number;
  /** Between two renewals; 0 for none. */
  renewal?: number;
  holder?: Uint8Array;
  resume?: boolean;
  timeout?: number;
  foreignLeaseMax?: number;
  wait?: number;
}

export interface NativeState {
  is: string;
  reason?: Failure;
  lostReason?: string;
}

export interface NativeFeed {
  next(timeout?: number): Begun;
  lostReason(): string | null;
  /** Why it ended, if it did not end with its client. */
  error(): Failure | null;
  stop(): void;
}

export interface NativeScan {
  nextPage(): Begun;
}

/** Name and client id. */
export type NativeHolder = [Buffer, string | null];

export interface NativeGuard {
  holder(): NativeHolder;
  token(): string;
  isValid(): boolean;
  reason(): Failure | null;
  lostReason(): string | null;
  loss(): Failure | null;
  finish(hasFailed: boolean): Begun;
  lost(): Begun;
  watch(): Begun;
  renew(): Begun;
  set(key: Uint8Array, value: Uint8Array, options?: SetInput): Begun;
  update(key: Uint8Array, options?: UpdateInput): Begun;
  del(key: Uint8Array, options?: DelInput): Begun;
  vdel(key: Uint8Array, value: Uint8Array, options?: DelInput): Begun;
  proclaim(value: Uint8Array): Begun;
  release(timeout?: number): Begun;
  leave(): Begun;
}

export interface NativeLease {
  acquire(): Begun;
  release(): Begun;
  holder(): Begun;
  observe(): Begun;
}

export interface NativeElection {
  campaign(value: Uint8Array): Begun;
  leader(): Begun;
  observe(): Begun;
}

export interface NativeClient {
  /** Whether there is more, then for each result: operation, failure or `true` for a question or nothing, and two values. */
  drain(): unknown[];
  cancel(operation: number): void;
  answer(operation: number, value?: Uint8Array): void;
  keepAlive(yes: boolean): void;
  connect(): Begun;
  close(timeout?: number): Begun;
  release(): void;
  clientId(): string;
  counters(): Record<string, number>;
  state(): NativeState;
  states(): NativeFeed;
  get(key: Uint8Array, timeout?: number, remaining?: boolean, eventual?: boolean): Begun;
  getMany(keys: Uint8Array[], timeout?: number, remaining?: boolean, eventual?: boolean): Begun;
  capabilities(): Begun;
  transact(operations: OperationInput[], options?: TransactInput): Begun;
  set(key: Uint8Array, value: Uint8Array, options?: SetInput): Begun;
  setMany(keys: Uint8Array[], values: Uint8Array[], options?: SetInput): Begun;
  del(key: Uint8Array, options?: DelInput): Begun;
  delMany(keys: Uint8Array[], options?: DelInput): Begun;
  vdel(key: Uint8Array, value: Uint8Array, options?: DelInput): Begun;
  update(key: Uint8Array, options?: UpdateInput): Begun;
  scan(pattern: Uint8Array, timeout?: number): NativeScan;
  observe(key: Uint8Array, kept?: number, timeout?: number): Begun;
  lease(name: Uint8Array, options?: LockInput): NativeLease;
  lock(name: Uint8Array, options?: LockInput): Begun;
  election(name: Uint8Array, options?: LockInput): NativeElection;
}

export interface NativeLog {
  drain(): { level: "ERROR" | "WARN" | "INFO" | "DEBUG" | "TRACE"; target: string; message: string }[];
  hasMore(): boolean;
  stop(): void;
}

export interface Native {
  NativeClient: new (settings: object, ring: () => void) => NativeClient;
  NativeLog: new (level: string, ring: () => void) => NativeLog;
  parseHlc(text: string): { wall: bigint; counter: bigint; node: string; text: string };
  compareHlc(a: string, b: string): number;
  errorKinds(): { name: string; code: number; retryable: boolean }[];
}

export const native = load() as Native;
