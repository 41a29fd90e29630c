/** The log of the library. */
import type { LogRecord } from "../index.js";
import { badValue, callback } from "./arguments.js";
import { direct } from "./errors.js";
import { rethrow } from "./follower.js";
import { native, type NativeLog } from "./native.js";
import { setImmediate } from "./timers.js";

const LEVELS = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

let current: NativeLog | undefined;

export function logTo(level: LogRecord["level"] | null, listener?: (record: LogRecord) => void): void {
  if (level === null) {
    current?.stop();
    current = undefined;
    return;
  }
  if (!LEVELS.includes(level)) {
    throw badValue("level", `must be one of ${LEVELS.join(", ")}`, level);
  }
  callback("listener", listener);
  const before = current;
  const log = direct(() => new native.NativeLog(level, () => setImmediate(drain).unref()));
  const drain = () => {
    const records = log.drain();
    if (log.hasMore()) {
      setImmediate(drain).unref();
    }
    for (const record of records) {
      try {
        listener?.(record);
      } catch (error) {
        rethrow(error);
      }
    }
  };
  current = log;
  before?.stop();
}
