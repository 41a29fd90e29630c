// The page in a real browser: what it shows, what it must not do, and the pictures of it in the documentation.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { chromium } from "playwright-core";
import { Server, TOKEN, USER } from "./server.js";

const EVIL = '<img src=x onerror="window.hacked=1"><svg onload="window.hacked=1">';
const pictures = new URL("../../docs/images/", import.meta.url).pathname;

let server, profile, browser, page, complaints, hosts;

before(async () => {
  server = await Server.start();
  profile = mkdtempSync(join(tmpdir(), "chromium-"));
  browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    viewport: { width: 1000, height: 760 },
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  await server.statestore("set", "greeting", '{"hello": "world"}');
  await server.statestore("set", EVIL, EVIL);
  await server.watcher(EVIL, EVIL);
  await server.holder("gateway-1", "nightly");
});

after(async () => {
  await browser?.close();
  await server?.stop();
  if (profile) rmSync(profile, { recursive: true, force: true });
});

beforeEach(async () => {
  page = await browser.newPage();
  complaints = [];
  hosts = new Set();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => hosts.add(new URL(request.url()).origin));
  await page.goto(server.http);
  await page.waitForSelector("#state.ready");
});

afterEach(async () => {
  assert.equal(await page.evaluate(() => window.hacked), undefined, "something that a client has sent was executed");
  assert.deepEqual([...hosts], [server.http], "the page asks nobody else");
  await page.close();
});

async function useToken() {
  await page.fill("#token", TOKEN);
  await page.press("#token", "Enter");
  await page.waitForSelector("#forget:not([hidden])");
}

const silent = () => assert.deepEqual(complaints, []);

test("figures change by themselves", async () => {
  const sets = "#requests-rows tr[data-verb=set] td:last-child";
  await page.waitForSelector(sets);
  const earlier = Number(await page.textContent(sets));
  await server.statestore("set", "another", "value");
  await page.waitForFunction(([where, count]) => Number(document.querySelector(where)?.textContent) > count, [sets, earlier]);
  assert.match(await page.textContent("#tiles"), /Keys/);
  silent();
});

test("keys are for those who have the token", async () => {
  await page.click("#keys-form button");
  await page.waitForSelector("#keys-note.failed");
  assert.match(await page.textContent("#keys-note"), /token/);
  await page.fill("#token", "a-wrong-token-of-somebody");
  await page.press("#token", "Enter");
  await page.waitForFunction(() => document.getElementById("state").textContent.includes("not the token"));
  await useToken();
  await page.waitForSelector("#state.ready");
  await page.fill("#pattern", "greet*");
  await page.press("#pattern", "Enter");
  await page.click("#keys-rows button:has-text('greeting')");
  await page.waitForFunction(() => document.getElementById("entry-value").textContent === '{"hello": "world"}');
  await page.selectOption("#form-of-value", "json");
  assert.equal(await page.textContent("#entry-value"), '{\n  "hello": "world"\n}');
  await page.selectOption("#form-of-value", "hex");
  assert.match(await page.textContent("#entry-value"), /^7b 22 68 65/);
  assert.equal(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })), "{}");
});

test("what clients have sent is shown as text", async () => {
  await useToken();
  await page.fill("#pattern", "*");
  await page.click("#keys-form button");
  const key = page.locator("#keys-rows button", { hasText: "onerror" });
  assert.equal(await key.textContent(), EVIL);
  await key.click();
  await page.waitForFunction((evil) => document.getElementById("entry-value").textContent === evil, EVIL);
  assert.equal(await page.textContent("#entry-title"), EVIL);
  assert.ok((await page.textContent("#entry-facts")).includes(EVIL), "the watching client is named");
  for (const list of ["connections", "sessions"]) {
    await page.click(`#${list}-load`);
    const cells = page.locator(`#${list}-rows tr`, { hasText: "onerror" }).locator("td");
    await cells.first().waitFor();
    assert.deepEqual((await cells.allTextContents()).slice(0, 2), [EVIL, USER], list);
  }
  await page.click("#locks-load");
  await page.locator("#locks-rows tr").first().waitFor();
  assert.match(await page.textContent("#locks-rows"), /nightly.*gateway-1/s);
  assert.equal(await page.locator("main img, main script, main svg:not(#chart)").count(), 0);
  silent();
});

test("characters that reorder text are shown by their numbers", async () => {
  await server.statestore("set", "pay\u202e001", "value\u2066");
  await useToken();
  await page.fill("#pattern", "pay*");
  await page.click("#keys-form button");
  const key = page.locator("#keys-rows button", { hasText: "pay" });
  assert.equal(await key.textContent(), "pay⟨U+202E⟩001");
  await key.click();
  await page.waitForFunction(() => document.getElementById("entry-value").textContent === "value⟨U+2066⟩");
});

test("changes are asked about first, and done", async () => {
  await useToken();
  await server.statestore("set", "to delete", "value");
  await page.fill("#pattern", "to delete");
  await page.press("#pattern", "Enter");
  await page.click("#keys-rows button");
  await page.waitForSelector("#entry:not([hidden])");
  page.once("dialog", (dialog) => dialog.dismiss());
  await page.click("#entry-delete");
  assert.match(await page.textContent("#entry-facts"), /Version/, "it is still there");
  page.once("dialog", (dialog) => dialog.accept());
  await page.click("#entry-delete");
  await page.waitForFunction(() => document.getElementById("keys-note").textContent === "1 deleted");
  assert.match(await page.textContent("#entry-facts"), /absent/);
  page.once("dialog", (dialog) => dialog.accept());
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#backup")]);
  assert.equal(download.suggestedFilename(), "statestored.backup");
  silent();
});

test("it is used with the keyboard alone", async () => {
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.focus("#pattern");
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none");
  const unlabelled = await page.evaluate(() => [
    ...[...document.querySelectorAll("input, select")].filter((it) => it.labels.length === 0).map((it) => it.id),
    ...[...document.querySelectorAll("table")].filter((it) => !it.caption).map((it) => it.outerHTML),
    ...[...document.querySelectorAll("section")].filter((it) => !it.getAttribute("aria-labelledby")).map((it) => it.id),
  ]);
  assert.deepEqual(unlabelled, []);
  silent();
});

test("it is light and dark", async () => {
  await useToken();
  await page.click("#locks-load");
  await page.waitForFunction(() => document.querySelectorAll("#tiles div").length > 11);
  const colours = {};
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    colours[scheme] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    if (process.env.PICTURES) await page.screenshot({ path: join(pictures, `page-${scheme}.png`) });
  }
  assert.notEqual(colours.light, colours.dark);
  silent();
});
