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
export type BeginResult = number | Failure;

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

export interface ObserveMatchingInput {
  /** Between two scans; 0 for none. */
  refresh?: number;
  maxKeys?: number;
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

export interface NativeEventStream {
  next(timeout?: number): BeginResult;
  lostReason(): string | null;
  /** Why it ended, if it did not end with its client. */
  error(): Failure | null;
  stop(): void;
}

export interface NativeScan {
  nextPage(): BeginResult;
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
  finish(hasFailed: boolean): BeginResult;
  lost(): BeginResult;
  watch(): BeginResult;
  renew(): BeginResult;
  set(key: Uint8Array, value: Uint8Array, options?: SetInput): BeginResult;
  update(key: Uint8Array, options?: UpdateInput): BeginResult;
  del(key: Uint8Array, options?: DelInput): BeginResult;
  vdel(key: Uint8Array, value: Uint8Array, options?: DelInput): BeginResult;
  proclaim(value: Uint8Array): BeginResult;
  release(timeout?: number): BeginResult;
  leave(): BeginResult;
}

export interface NativeLease {
  acquire(): BeginResult;
  release(): BeginResult;
  holder(): BeginResult;
  observe(): BeginResult;
}

export interface NativeElection {
  campaign(value: Uint8Array): BeginResult;
  leader(): BeginResult;
  observe(): BeginResult;
}

export interface NativeClient {
  /** Whether there is more, then for each result: operation, failure or `true` for a question or nothing, and two values. */
  drain(): unknown[];
  cancel(operation: number): void;
  answer(operation: number, value?: Uint8Array): void;
  keepAlive(yes: boolean): void;
  connect(): BeginResult;
  close(timeout?: number): BeginResult;
  release(): void;
  clientId(): string;
  counters(): Record<string, number>;
  state(): NativeState;
  states(): NativeEventStream;
  get(key: Uint8Array, timeout?: number, remaining?: boolean, eventual?: boolean): BeginResult;
  getMany(keys: Uint8Array[], timeout?: number, remaining?: boolean, eventual?: boolean): BeginResult;
  exists(key: Uint8Array, timeout?: number, eventual?: boolean): BeginResult;
  ttl(key: Uint8Array, timeout?: number, eventual?: boolean): BeginResult;
  touch(key: Uint8Array, expiresIn: number, options?: UpdateInput): BeginResult;
  ping(timeout?: number): BeginResult;
  capabilities(): BeginResult;
  transact(operations: OperationInput[], options?: TransactInput): BeginResult;
  set(key: Uint8Array, value: Uint8Array, options?: SetInput): BeginResult;
  setMany(keys: Uint8Array[], values: Uint8Array[], options?: SetInput): BeginResult;
  del(key: Uint8Array, options?: DelInput): BeginResult;
  delMany(keys: Uint8Array[], options?: DelInput): BeginResult;
  vdel(key: Uint8Array, value: Uint8Array, options?: DelInput): BeginResult;
  update(key: Uint8Array, options?: UpdateInput): BeginResult;
  scan(pattern: Uint8Array, timeout?: number): NativeScan;
  scanEntries(pattern: Uint8Array, timeout?: number, fallback?: boolean): NativeScan;
  observe(key: Uint8Array, kept?: number, timeout?: number, initial?: boolean): BeginResult;
  observeMatching(pattern: Uint8Array, options?: ObserveMatchingInput): BeginResult;
  lease(name: Uint8Array, options?: LockInput): NativeLease;
  lock(name: Uint8Array, options?: LockInput): BeginResult;
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
