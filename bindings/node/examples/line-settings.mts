/**
 * The settings of a line: other programs change them, and the line follows all keys of their folder.
 *
 *     node line-settings.mts               follows the settings until Ctrl-C
 *     node line-settings.mts NAME VALUE    changes one
 *
 * STATESTORE_URL is the address of the server. Node before 22.18 does not read TypeScript: compile the program with `tsc` first.
 */
import { type Client, connect, StateStoreError } from "statestore";

const FOLDER = "line-1/settings/";
const DEFAULTS = new Map([
  ["pressure", 5],
  ["speed", 60],
]);
const settings = new Map(DEFAULTS);
let used = "";

/** Applies the value of a setting; `undefined` if it is not set. A value that is no number changes nothing. */
function apply(key: string, text: string | undefined): void {
  const name = key.slice(FOLDER.length);
  const normal = DEFAULTS.get(name);
  if (normal === undefined) {
    return;
  }
  const number = text === undefined ? normal : Number.parseInt(text, 10);
  if (Number.isNaN(number)) {
    console.error(`${key} is "${text}", which is no number`);
  } else {
    settings.set(name, number);
  }
}

/** Runs with the settings from now on. */
function run(): void {
  const list = Array.from(settings, ([name, number]) => `${name} ${number}`).join(", ");
  if (list !== used) {
    used = list;
    console.log(`the line runs with ${list}`);
  }
}

async function follow(client: Client<string>): Promise<void> {
  let isComplete = false;
  const changes = await client.observeMatching(`${FOLDER}*`);
  process.once("SIGINT", () => changes.close());
  for await (const change of changes) {
    if (change.is === "set") {
      apply(change.key, change.value);
    } else if (change.is === "deleted") {
      apply(change.key, undefined);
    } else {
      // After "resync" changes may have been missed. The differences follow, and the line waits for all of them.
      isComplete = change.is !== "resync";
    }
    if (isComplete) {
      run();
    }
  }
}

try {
  const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883", { encoding: "utf8" });
  const [name, value] = process.argv.slice(2);
  await (name === undefined || value === undefined ? follow(client) : client.set(FOLDER + name, value));
  await client.close();
} catch (error) {
  console.error(error instanceof StateStoreError ? `${error.code}: ${error.message}` : error);
  process.exit(1);
}
