/**
 * Measures our client for Node and, in the same run, the protocol written by hand over MQTT.js: `scripts/bench node`.
 *
 *     STATESTORED=… node main.mjs [RUNS]
 *
 * Each run is a process of its own, so that its CPU time is that of the client alone, all its threads included. Rows are the
 * medians by rate. The longest delay of the event loop is that of the least and the most disturbed run.
 */
import { execFileSync } from "node:child_process";
import { startServer } from "statestore/testing";

const RUNS = Number(process.argv[2] ?? 3);
/** Requests of one run, about two seconds of each. */
const REQUESTS = { ours: { 1: 20_000, 64: 200_000, 256: 300_000 }, peer: { 1: 10_000, 64: 30_000, 256: 30_000 } };
const NAMES = { ours: "statestore", peer: "by hand over MQTT.js" };

function measure(client, inFlight, url) {
  const runs = Array.from({ length: RUNS }, () => {
    const args = ["run.mjs", client, String(inFlight), String(REQUESTS[client][inFlight]), url];
    return JSON.parse(execFileSync(process.execPath, args, { cwd: import.meta.dirname, encoding: "utf8" }));
  });
  runs.sort((a, b) => a.perSecond - b.perSecond);
  const median = runs[Math.floor(runs.length / 2)];
  const longest = runs.map(({ longestDelay }) => longestDelay);
  return { ...median, longest: [Math.min(...longest), Math.max(...longest)] };
}

const server = await startServer();
console.log("| | req/s | p50 | p99 | CPU per request | calls into the event loop per s | its delay, p99 | longest |");
console.log("| --- | --- | --- | --- | --- | --- | --- | --- |");
for (const inFlight of [1, 64, 256]) {
  const figures = {};
  for (const client of ["ours", "peer"]) {
    const of = measure(client, inFlight, server.url);
    figures[client] = of;
    console.log(
      `| ${NAMES[client]}, ${inFlight} in flight | ${Math.round(of.perSecond).toLocaleString("en")} | ${of.p50.toFixed(0)} µs ` +
        `| ${of.p99.toFixed(0)} µs | ${of.cpu.toFixed(1)} µs | ${Math.round(of.calls).toLocaleString("en")} ` +
        `| ${of.delay.toFixed(1)} ms | ${of.longest.map((ms) => ms.toFixed(1)).join(" to ")} ms |`,
    );
  }
  const { ours, peer } = figures;
  console.log(
    `| ratio, ${inFlight} in flight | ${(ours.perSecond / peer.perSecond).toFixed(1)} | ${(ours.p50 / peer.p50).toFixed(2)} ` +
      `| ${(ours.p99 / peer.p99).toFixed(2)} | ${(ours.cpu / peer.cpu).toFixed(2)} | | | |`,
  );
}
await server.stop();
