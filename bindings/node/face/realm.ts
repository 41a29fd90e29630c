/**
 * Classes of the platform, for values of any realm: test environments such as Jest's jsdom have globals of their own, and lack some.
 */
import { TextDecoder, types } from "node:util";

export { TextDecoder };
export const { isPromise, isUint8Array } = types;

export function isError(value: unknown): value is Error {
  return types.isNativeError(value) || value instanceof Error;
}

export function isAbortSignal(value: unknown): value is AbortSignal {
  const signal = value as Partial<AbortSignal> | null | undefined;
  return typeof signal === "object" && typeof signal?.aborted === "boolean" && typeof signal.addEventListener === "function";
}

export function isUrl(value: unknown): value is URL {
  const url = value as Partial<URL> | null | undefined;
  return typeof url === "object" && typeof url?.href === "string" && typeof url.searchParams === "object";
}
