/** The output of objects in `util.inspect`, and so in `console.log`. */
import type { inspect, InspectOptions } from "node:util";

export type { InspectOptions };
export type Inspect = typeof inspect;

export const inspected = Symbol.for("nodejs.util.inspect.custom");

/** `Name { member: … }`, without members that are `null`. */
export function shown(name: string, options: InspectOptions, inspect: Inspect, members: Record<string, unknown>): string {
  const present = Object.entries(members).filter(([, value]) => value !== null && value !== undefined);
  return `${name} ${inspect(Object.fromEntries(present), options)}`;
}
