"use strict";
/** Where `statestored` is: each platform has a package of its own, of which npm installs the one that fits. */
const { platform } = require("./platform.js");

const name = `@statestore/server-${platform()}`;
try {
  exports.statestoredPath = require.resolve(`${name}/statestored`);
} catch (cause) {
  throw new Error(
    `@statestore/server has no program here: the package ${name} cannot be found. It is installed as an optional dependency, if ` +
      "there is one for this platform; reinstall without --omit=optional, and not from another platform's node_modules.",
    { cause },
  );
}
