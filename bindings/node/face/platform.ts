/** Finding the native half: each platform has a package of its own, of which npm installs the one that fits. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The end of the names of the packages, as in platforms.json. */
export function platform(): string {
  const { platform, arch } = process;
  switch (platform) {
    case "linux":
      return `linux-${arch}-${isGlibc() ? "gnu" : "musl"}`;
    case "win32":
      return `win32-${arch}-msvc`;
    default:
      return `${platform}-${arch}`;
  }
}

/** By what is mapped into this process: a diagnostic report would look up the names of its peers in the network. */
function isGlibc(): boolean {
  try {
    return !readFileSync("/proc/self/maps", "latin1").includes("/ld-musl-");
  } catch {
    return true;
  }
}

export function load(): unknown {
  // In a checkout, scripts/build.mjs puts it here; no package has it.
  const built = join(__dirname, "..", "statestore.node");
  if (existsSync(built)) {
    return require(built);
  }
  const name = `@statestore/${platform()}`;
  try {
    return require(name);
  } catch (cause) {
    throw new Error(
      `statestore has no native half here: the package ${name} cannot be loaded. It is installed as an optional dependency ` +
        "of statestore, if there is one for this platform; reinstall without --omit=optional, and not from another platform's " +
        "node_modules.",
      { cause },
    );
  }
}
