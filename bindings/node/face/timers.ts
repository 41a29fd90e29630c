/**
 * Timers of the platform, captured when this module loads. Tests replace them by fake ones, for which no result may wait.
 *
 * They come from `node:timers`: the global ones may be fakes already.
 */
import * as timers from "node:timers";

export const { clearTimeout, setImmediate, setTimeout } = timers;
