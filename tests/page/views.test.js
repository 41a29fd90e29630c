// All views of the page: accessibility, colours, narrow screens, servers that lack paths, and the pictures of the documentation.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Browser, useToken, waitForText } from "./browser.js";
import { EVIL, Mock, TOKEN } from "./mock.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PICTURES = new URL("../../docs/images/", import.meta.url).pathname;
const hexOf = (text) => Buffer.from(text).toString("hex");

// Each view, with a text that it shows once it is filled.
const VIEWS = [
  ["#/overview", "Maximum"], ["#/keys", "keys in all"], ["#/keys/line1/", "2 keys in all"], ["#/keys?match=*", "keys in all"],
  [`#/key/${hexOf("line1/pressure")}`, "members"], [`#/key/${hexOf(EVIL)}?as=hex`, "000000"], [`#/key/${hexOf("none")}`, "absent"],
  ["#/locks", "1 lock"], ["#/clients?sort=rate", "2 connections"], ["#/sessions", "for ever"], ["#/client/gateway-1", "TLS 1.3"],
  ["#/refusals", "2 refusals"], ["#/audit", "connected"], ["#/load", "mget"], ["#/load/slow", "22\u00a0ms"], ["#/load/hot", "6,400"],
  ["#/load/big", "2 pages"], ["#/load/ttl", "nightly"], ["#/load/monitor", "Start"], ["#/cluster", "etcd-1"], ["#/cluster/options", "a change waits for a restart"],
  ["#/cluster/policy?user=a&action=read&name=line1", "Allowed"], ["#/cluster/actions", "Drain"],
];

const API = ["/api/history", "/api/limits", "/api/prefixes", "/api/keys", "/api/key", "/api/locks", "/api/connections", "/api/sessions", "/api/client",
  "/api/refusals", "/api/audit", "/api/slowlog", "/api/hotkeys", "/api/bigkeys", "/api/ttl", "/api/monitor", "/api/config", "/api/log", "/api/policy/check"];

let browser;

before(async () => {
  browser = await Browser.start();
});

after(() => browser?.stop());

async function fill(mock) {
  mock.set("line1/temperature", "21.5");
  mock.set("line1/pressure", '{"bar": 1.2, "unit": "bar", "limits": {"low": 0.4, "high": 2.5}}');
  mock.set("line2/temperature", "19.0");
  mock.set("nightly", "gateway-1", { expires_in_ms: 30e3, holder: "gateway-1" });
  if (mock.strange === EVIL) mock.set(EVIL, EVIL);
}

async function inPage(work, strange) {
  const mock = await Mock.start(strange);
  await fill(mock);
  const page = await browser.open(mock.origin);
  try {
    await waitForText(page, "ready", "#state");
    await useToken(page, TOKEN);
    await work(page, mock);
    await browser.close(page, mock.origin);
  } finally {
    await mock.stop();
  }
}

// Returns when the view has changed.
const go = (page, link) => page.evaluate((hash) => new Promise((done) => {
  if (location.hash === hash) return done();
  addEventListener("hashchange", done, { once: true });
  location.hash = hash;
}).then(() => {}), link);

async function violations(page) {
  if (!await page.evaluate(() => "axe" in window)) await page.evaluate(AXE);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.flatMap((it) => it.nodes.map((node) => `${it.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
}

// Words that are broken into two lines, and how far the page is wider than the screen. What clients have sent may break.
const layoutFaults = (page) => page.evaluate(() => {
  const faults = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.parentElement.closest(".raw, pre, .json, svg, dialog p, dialog h2, option, noscript, script")) continue;
    for (const word of node.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) faults.push(`broken: ${word[0]}`);
    }
  }
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) faults.push(`wider than the screen by ${scrollWidth - clientWidth}`);
  return faults;
});

for (const [name, viewport] of [["a desk", { width: 1200, height: 800 }], ["a phone", { width: 360, height: 740 }]]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing in any view, ${colorScheme}, on ${name}`, () => inPage(async (page) => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      for (const [link, filled] of VIEWS) {
        await go(page, link);
        await waitForText(page, filled);
        assert.deepEqual(await violations(page), [], link);
        assert.deepEqual(await layoutFaults(page), [], link);
        assert.equal(await page.locator("main img, main script, main iframe").count(), 0, link);
      }
      await go(page, "#/locks");
      await page.click("text=Release…");
      assert.deepEqual(await violations(page), [], "a question");
      assert.deepEqual(await layoutFaults(page), [], "a question");
      await page.keyboard.press("Escape");
      await page.click("#help");
      assert.deepEqual(await violations(page), [], "the help");
    }));
  }
}

test("a view says which path the server lacks", () => inPage(async (page, mock) => {
  mock.missing = new Set(API);
  await page.reload();
  await useToken(page, TOKEN);
  for (const [link] of VIEWS) {
    await go(page, link);
    const path = { "#/load": null, "#/cluster": null, "#/load/monitor": null }[link];
    if (path === null) continue;
    await page.waitForFunction(() => /this server has no \/(api|events)/.test(document.querySelector("main").textContent));
    assert.equal(await page.locator("main h1").count(), 1, link);
  }
  assert.deepEqual(await violations(page), []);
}));

test("a long list shows more on demand", () => inPage(async (page) => {
  await go(page, "#/sessions");
  await waitForText(page, "200 sessions shown, there are more");
  assert.equal(await page.locator("tbody tr").count(), 200);
  await page.getByRole("button", { name: "Show more" }).click();
  await waitForText(page, "250 sessions");
  assert.equal(await page.locator("tbody tr").count(), 250);
  assert.equal(await page.getByRole("button", { name: "Show more" }).count(), 0);
}));

test("without /api/prefixes and /api/client, the lists fill in", () => inPage(async (page, mock) => {
  mock.missing = new Set(["/api/prefixes", "/api/client", "/api/unlock"]);
  await go(page, "#/keys/line1/");
  await waitForText(page, "2 keys in all");
  assert.match(await page.textContent("main"), /this server has no \/api\/prefixes/);
  await go(page, "#/client/gateway-1");
  await waitForText(page, "192.0.2.8:5001");
  await go(page, "#/locks");
  await page.click("text=Release…");
  await page.locator("dialog .choices button").nth(1).click();
  await page.waitForSelector("dialog .notice.missing, dialog .notice.failed");
}));

test("links that name nothing are answered", () => inPage(async (page) => {
  for (const link of ["#/nothing", "#/key/xyz", "#/load/nothing", "#/cluster/nothing", "#/keys/%ff%"]) {
    await go(page, link);
    await page.waitForSelector("main .failed, main p");
  }
}));

test("light and dark differ", () => inPage(async (page) => {
  await waitForText(page, "Waiting for the disk");
  await waitForText(page, "Maximum");
  await page.evaluate(() => document.activeElement.blur());
  await page.setViewportSize({ width: 1200, height: 1000 });
  const colours = {};
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    colours[colorScheme] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    if (process.env.PICTURES) await page.screenshot({ path: join(PICTURES, `page-${colorScheme}.png`) });
  }
  assert.notEqual(colours.light, colours.dark);
}, "line2"));
