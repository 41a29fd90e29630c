// Numbers, times and bytes of clients as text.

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNKNOWN = "–";

// Shows control and format characters by their numbers: they could reorder or hide adjacent text.
export function visible(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (found) =>
    found === "\n" || found === "\t" ? found : `\u27e8U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

// Shows a name in one line.
export const visibleLine = (text) => visible(text).replace(/[\n\t]/g, (found) => (found === "\n" ? "\u27e8U+000A\u27e9" : "\u27e8U+0009\u27e9"));

export const count = (number) => (number == null ? UNKNOWN : NUMBER.format(number));
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export function rate(number) {
  if (number == null) return UNKNOWN;
  return `${quantity(number)}/s`;
}

// A number that may have a fraction.
export const quantity = (number) => (number == null ? UNKNOWN : number < 10 ? String(short(number)) : count(number));

export function bytes(number) {
  if (number == null) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit + 1 < units.length) { number /= 1024; unit += 1; }
  return `${unit && number < 100 ? Number(number.toFixed(1)) : Math.round(number)}\u00a0${units[unit]}`;
}

export function micros(number) {
  if (number == null) return UNKNOWN;
  if (number < 1e3) return `${Math.round(number)}\u00a0µs`;
  return number < 1e6 ? `${short(number / 1e3)}\u00a0ms` : `${short(number / 1e6)}\u00a0s`;
}

const short = (number) => (number < 10 ? Number(number.toFixed(1)) : Math.round(number));

export function duration(ms) {
  if (ms == null) return UNKNOWN;
  if (ms < 1e4) return `${(Math.max(ms, 0) / 1e3).toFixed(1)}\u00a0s`;
  if (ms < 12e4) return `${Math.round(ms / 1e3)}\u00a0s`;
  if (ms < 36e5 * 3) return `${Math.round(ms / 6e4)}\u00a0min`;
  return ms < 36e5 * 72 ? `${Math.round(ms / 36e5)}\u00a0h` : `${count(ms / 864e5)}\u00a0days`;
}

export const moment = (ms) => (ms == null ? UNKNOWN : new Date(ms).toLocaleString());
export const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
export const ago = (ms) => (ms == null ? UNKNOWN : duration(Date.now() - ms));

// The upper bound of a share of the durations between two snapshots of a histogram.
export function percentile(before, now, bounds, share) {
  const counts = now.map((number, range) => number - (before?.[range] ?? 0));
  const total = counts.reduce((sum, number) => sum + number, 0);
  if (total <= 0) return null;
  let soFar = 0;
  const range = counts.findIndex((number) => (soFar += number) >= total * share);
  return bounds[range] ?? bounds.at(-1);
}

// ---- bytes of clients: {hex, text}

// The name of a key as text, or as 0x and digits.
export const named = (name) => (name.text ?? `0x${name.hex}`);

export const percentEncoded = (hex) => hex.replace(/../g, "%$&");

export const hexOf = (text) => Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, "0")).join("");

export const isHex = (text) => text.length % 2 === 0 && /^[0-9a-f]*$/i.test(text);

// Rows of 16 bytes: offset, digits and printable ASCII characters.
export function hexDump(hex) {
  const rows = [];
  for (let start = 0; start < hex.length; start += 32) {
    const pairs = hex.slice(start, start + 32).match(/../g);
    const preview = pairs.map((pair) => parseInt(pair, 16)).map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    rows.push(`${(start / 2).toString(16).padStart(6, "0")}  ${pairs.join(" ").padEnd(47)}  ${preview}`);
  }
  return rows.join("\n");
}

// A pattern that matches exactly this text.
export const escapedPattern = (text) => text.replace(/[\\*?[\]]/g, "\\$&");
