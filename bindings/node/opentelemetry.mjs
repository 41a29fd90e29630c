/** The same module for `import`; one instance serves both. */
import opentelemetry from "./dist/opentelemetry.js";

export const { instrument } = opentelemetry;
