/** The scripted peer (tests/peer), and what it is to be asked. */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";

const PEER = join(import.meta.dirname, "../../../tests/peer");
const READY = "listening on tcp://";

/** Connections with the calls to make and what they give. */
export const plan = (play) => JSON.parse(execFileSync("python3", [PEER, "--plan", play], { maxBuffer: 2 ** 24 }));

/** A peer that plays: its URL, and `end`, which fails unless everything came that it expects. */
export async function peerOf(t, play) {
  const child = spawn("python3", [PEER, play]);
  t.after(() => child.kill("SIGKILL"));
  const ended = once(child, "close");
  const complaints = text(child.stderr);
  const [line] = await once(createInterface(child.stdout), "line");
  assert(line.startsWith(READY), line);
  const end = async () => {
    child.stdin.end();
    const [code] = await ended;
    assert.equal(code, 0, await complaints);
  };
  return { url: `mqtt://${line.slice(READY.length)}`, end };
}
