/** Finding the native half: each platform has a package of its own, of which npm installs the one that fits. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

/** Environment variable with the path of the native half, for programs without node_modules. */
const VARIABLE = "STATESTORE_ADDON";
/** Name of the native half among the assets of a single executable. */
const ASSET = "statestore.node";

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

/** Loads the native half. Names of packages are literals within a `try`, so that bundlers find those that are installed. */
export function load(): unknown {
  const given = process.env[VARIABLE];
  if (given !== undefined && given !== "") {
    return loadGiven(given);
  }
  const built = builtHere();
  if (built !== undefined) {
    return open(built);
  }
  // Before the packages: of those, a single executable warns.
  const asset = unpackAsset();
  if (asset !== undefined) {
    return asset;
  }
  const name = platform();
  let cause: unknown;
  try {
    switch (name) {
      case "linux-x64-gnu":
        return require("@statestore/linux-x64-gnu");
      case "linux-arm64-gnu":
        return require("@statestore/linux-arm64-gnu");
      case "linux-x64-musl":
        return require("@statestore/linux-x64-musl");
      case "linux-arm64-musl":
        return require("@statestore/linux-arm64-musl");
      case "darwin-x64":
        return require("@statestore/darwin-x64");
      case "darwin-arm64":
        return require("@statestore/darwin-arm64");
      case "win32-x64-msvc":
        return require("@statestore/win32-x64-msvc");
      default:
    }
  } catch (error) {
    cause = error;
  }
  throw new Error(
    `statestore has no native half here: the package @statestore/${name} cannot be loaded. It is installed as an optional dependency ` +
      "of statestore, if there is one for this platform; reinstall without --omit=optional, and not from another platform's " +
      `node_modules. In a bundle or a single executable, add ${ASSET} of that package as an asset, or set ${VARIABLE} to its path.`,
    { cause },
  );
}

function loadGiven(path: string): unknown {
  try {
    return open(resolve(path));
  } catch (cause) {
    throw new Error(`statestore has no native half here: ${VARIABLE} is ${JSON.stringify(path)}, which cannot be loaded`, { cause });
  }
}

/**
 * The native half of a checkout, where scripts/build.mjs puts it; no package has it there. Modules with ES syntax have no `__filename`, and
 * that of a bundle is another one.
 */
function builtHere(): string | undefined {
  if (typeof __filename !== "string" || basename(__filename) !== "platform.js") {
    return undefined;
  }
  const built = join(__dirname, "..", "statestore.node");
  return existsSync(built) ? built : undefined;
}

/** Loads the native half among the assets of a single executable, by a temporary file: systems load libraries from files only. */
function unpackAsset(): unknown {
  let content: ArrayBuffer;
  try {
    const sea = require("node:sea") as typeof import("node:sea");
    if (!sea.isSea()) {
      return undefined;
    }
    content = sea.getAsset(ASSET);
  } catch {
    // This Node has no single executables, or this one has no such asset.
    return undefined;
  }
  const folder = mkdtempSync(join(tmpdir(), "statestore-"));
  try {
    const path = join(folder, ASSET);
    writeFileSync(path, new Uint8Array(content), { mode: 0o600 });
    return open(path);
  } finally {
    // A library that is loaded does not need its file, but Windows keeps it.
    if (process.platform !== "win32") {
      rmSync(folder, { recursive: true, force: true });
    }
  }
}

/** Loads a file whose name no bundler has to follow; single executables have no `require` for files. */
function open(path: string): unknown {
  const module = { exports: {} };
  process.dlopen(module, path);
  return module.exports;
}
