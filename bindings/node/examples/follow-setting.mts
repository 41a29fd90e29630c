/**
 * A setting that other programs follow: the speed of a line.
 *
 *     node follow-setting.mts          follows the setting until Ctrl-C
 *     node follow-setting.mts SPEED    changes it
 *
 * STATESTORE_URL is the address of the server. Node before 22.18 does not read TypeScript: compile the program with `tsc` first.
 */
import { type Client, connect, StateStoreError } from "statestore";

const KEY = "line-1/speed";
const DEFAULT = 60;
let present: number | undefined;

/** Applies the value of the setting; `undefined` if it is not set. A value that is no number changes nothing. */
function apply(text: string | undefined): void {
  const speed = text === undefined ? DEFAULT : Number.parseInt(text, 10);
  if (Number.isNaN(speed)) {
    console.error(`${KEY} is "${text}", which is no number`);
  } else if (speed !== present) {
    present = speed;
    console.log(`the line runs at ${speed}`);
  }
}

async function follow(client: Client<string>): Promise<void> {
  // Observes first and reads then, so that no change between the two is missed.
  const changes = await client.observe(KEY);
  process.once("SIGINT", () => changes.close());
  apply((await client.get(KEY))?.value);
  for await (const change of changes) {
    if (change.is === "set") {
      apply(change.value);
    } else if (change.is === "deleted") {
      apply(undefined);
    } // "resync": the connection was lost. An observation of the present value follows.
  }
}

try {
  const client = await connect(process.env.STATESTORE_URL ?? "mqtt://127.0.0.1:1883", { encoding: "utf8" });
  const speed = process.argv[2];
  await (speed === undefined ? follow(client) : client.set(KEY, speed));
  await client.close();
} catch (error) {
  console.error(error instanceof StateStoreError ? `${error.code}: ${error.message}` : error);
  process.exit(1);
}
