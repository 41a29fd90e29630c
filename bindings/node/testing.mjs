/** The same module for `import`. */
import testing from "./dist/testing.js";

export const { startServer } = testing;
