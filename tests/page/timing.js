// Measures each view of the page from the click to the last paint: 100,000 keys, 10,000 connections, and a server under load.
//     STATESTORED=… STATESTORE=… npm run timing
import { connect } from "node:net";
import { Browser, useToken, waitForText } from "./browser.js";
import { Server, TOKEN } from "./server.js";

const KEYS = 100_000, CONNECTIONS = 9_900, ROUNDS = 5;
const VIEWS = [
  "#/overview", "#/keys", "#/keys/bench%3A", "#/keys?match=bench%3A00000123*", "#/key/" + Buffer.from("bench:0000012345").toString("hex"), "#/locks",
  "#/clients", "#/clients?client=idle-77", "#/clients?sort=rate", "#/sessions", "#/client/idle-77", "#/refusals", "#/audit", "#/load", "#/load/slow", "#/load/hot",
  "#/load/big", "#/load/ttl", "#/cluster",
];

const text = (value) => Buffer.concat([Buffer.from([value.length >> 8, value.length & 255]), Buffer.from(value)]);

// An MQTT 5 connection that stays, without keep-alive.
function idle({ host, port, user, password }, id) {
  const body = Buffer.concat([text("MQTT"), Buffer.from([5, 0xc2, 0, 0, 0]), text(id), text(user), text(password)]);
  const length = body.length < 128 ? [body.length] : [(body.length & 127) | 128, body.length >> 7];
  return new Promise((done, failed) => {
    const socket = connect(port, host, () => socket.write(Buffer.concat([Buffer.from([0x10, ...length]), body])));
    socket.once("data", (data) => (data[0] === 0x20 && data[3] === 0 ? done(socket) : failed(new Error(`CONNACK ${data.toString("hex")}`))));
    socket.on("error", failed);
  });
}

// Runs in the page: resolves with the milliseconds from the click to the frame after the last change, once no request is under way and nothing has
// changed for 150 ms.
function measure(link) {
  return new Promise((done) => {
    const main = document.getElementById("main");
    const begin = performance.now();
    let last = begin;
    const painted = () => requestAnimationFrame(() => setTimeout(() => { last = performance.now(); }));
    const observer = new MutationObserver(painted);
    observer.observe(main, { subtree: true, childList: true, characterData: true, attributes: true });
    location.hash = link;
    const timer = setInterval(() => {
      if (window.underWay > 0 || performance.now() - last < 150) {
        if (performance.now() - begin < 20_000) return;
        last = Infinity;
      }
      clearInterval(timer);
      observer.disconnect();
      done(last - begin);
    }, 20);
  });
}

const server = await Server.start(["--log", "error"]);
let browser;
const sockets = [];
try {
  const [host, port] = server.store.split(":");
  const { user, password } = server.credentials;
  await server.statestore("bench", "--ops", "0", "--keys", String(KEYS), "--keep");
  for (let first = 0; first < CONNECTIONS; first += 100) {
    const ids = Array.from({ length: 100 }, (_, index) => `idle-${first + index}`);
    sockets.push(...await Promise.all(ids.map((id) => idle({ host, port: Number(port), user, password }, id))));
  }
  server.statestore("bench", "--keys", String(KEYS), "--keep", "--connections", "50", "--in-flight", "1", "--seconds", "600").catch(() => {});
  browser = await Browser.start();
  const page = await browser.open(server.http);
  await waitForText(page, "ready", "#state");
  await page.evaluate(() => {
    const fetched = window.fetch;
    window.underWay = 0;
    window.fetch = async (...args) => {
      if (String(args[0]).includes("/events")) return fetched(...args);
      window.underWay += 1;
      try {
        const response = await fetched(...args);
        const json = response.json.bind(response);
        response.json = async () => { window.underWay += 1; try { return await json(); } finally { window.underWay -= 1; } };
        return response;
      } finally {
        setTimeout(() => { window.underWay -= 1; });
      }
    };
  });
  await useToken(page, TOKEN);
  const times = new Map(VIEWS.map((view) => [view, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const view of VIEWS) times.get(view).push(await page.evaluate(measure, view));
  }
  for (const [view, all] of times) {
    all.sort((left, right) => left - right);
    console.log(`${view.padEnd(40)} median ${all[ROUNDS >> 1].toFixed(0).padStart(6)} ms, highest ${all.at(-1).toFixed(0).padStart(6)} ms`);
  }
} finally {
  for (const socket of sockets) socket.destroy();
  await browser?.stop();
  await server.stop();
}
