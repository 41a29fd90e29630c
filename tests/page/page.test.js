// The page in a real browser: what each view shows of the HTTP API, and what it must not do.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { Browser, useToken, waitForText } from "./browser.js";
import { EVIL, Mock, TOKEN } from "./mock.js";

const hexOf = (text) => Buffer.from(text).toString("hex");

let browser, mock, page;

before(async () => {
  browser = await Browser.start();
});

after(() => browser?.stop());

beforeEach(async () => {
  mock = await Mock.start();
  mock.set("line1/temperature", "21.5");
  mock.set("line1/pressure", '{"bar": 1.20, "serial": 12345678901234567890, "list": [1, {"deep": true}]}');
  mock.set("line1/pumps/a", "on");
  mock.set(EVIL, EVIL);
  mock.set("nightly", "gateway-1", { expires_in_ms: 30e3, holder: "gateway-1", fence: "f7" });
});

afterEach(async () => {
  await browser.close(page, mock.origin);
  await mock.stop();
});

async function open(link, token = TOKEN) {
  page = await browser.open(mock.origin, link);
  await waitForText(page, "ready", "#state");
  if (token) await useToken(page, token);
}

const text = (where) => page.textContent(where);
const rows = () => page.locator("main tbody tr");

// Fills the open dialog, confirms it, and returns the outcome.
async function confirm(fields = {}) {
  for (const [name, value] of Object.entries(fields)) {
    const field = page.locator(`dialog [name=${name}]`);
    if (await field.evaluate((it) => it.tagName === "SELECT")) await field.selectOption(value);
    else await field.fill(value);
  }
  await page.locator("dialog .choices button").nth(1).click();
  await page.waitForSelector("dialog .notice.done, dialog .notice.failed, dialog .notice.missing");
  return text("dialog .notice");
}

const closeDialog = () => page.locator("dialog .choices button").first().click();

test("the overview draws the history, follows the figures and reads moments", async () => {
  await open("#/overview");
  const chart = page.getByRole("slider", { name: "Requests per second" });
  await page.waitForFunction(() => Number(document.querySelector(".chart").getAttribute("aria-valuemax")) >= 180);
  assert.match(await page.locator("figure").first().textContent(), /now.*set.*get/s);
  assert.match(await chart.textContent(), /−15 min.*now/s);
  await chart.focus();
  await page.keyboard.press("Home");
  assert.match(await chart.getAttribute("aria-valuetext"), /: set 5\d, get 10\d, mget 15\d/);
  await chart.hover({ position: { x: 200, y: 50 } });
  assert.equal(await page.locator(".chart .cursor").count(), 1);
  const earlier = await chart.getAttribute("aria-valuemax");
  await page.waitForFunction((count) => document.querySelector(".chart").getAttribute("aria-valuemax") !== count, earlier);
  assert.match(await text("main"), /clock_suspect timestamps of clients are behind/);
  assert.match(await text("main"), /The previous run crashed\./);
  assert.match(await text("main"), /max-bytes of the server: .*SETs that make the store larger are rejected/);
});

test("prefixes are counted over the following pages", async () => {
  for (let number = 0; number < 30; number += 1) mock.set(`many/${number}`, "x");
  mock.prefixPage = 7;
  await open("#/keys");
  await waitForText(page, "35 keys in all");
  assert.match(await rows().filter({ hasText: "many/" }).textContent(), /many\/30/);
  await page.getByRole("link", { name: "line1/" }).click();
  await waitForText(page, "3 keys in all");
  assert.equal(new URL(page.url()).hash, "#/keys/line1/");
  assert.match(await text("main"), /pumps\/1.*pressure/s);
});

test("the search opens an exact key, a prefix or a pattern", async () => {
  await open("#/keys");
  const search = async (key) => {
    await page.fill("#filter-key", key);
    await page.press("#filter-key", "Enter");
  };
  await search("line1/p*");
  await waitForText(page, "2 keys in all");
  assert.match(page.url(), /#\/keys\?match=line1%2Fp\*$/);
  await search("0x6c");
  await waitForText(page, "absent");
  await page.goBack();
  await search("line1/temperature");
  await waitForText(page, "21.5");
  assert.equal(new URL(page.url()).hash, `#/key/${hexOf("line1/temperature")}`);
});

test("a value is shown as text, as JSON that folds, and in hexadecimal", async () => {
  await open(`#/key/${hexOf("line1/pressure")}`);
  await page.waitForSelector(".json");
  assert.match(await text(".json"), /"bar": 1\.20"serial": 12345678901234567890"list": \[ 2 items \]$/);
  await page.locator(".json summary", { hasText: "list" }).click();
  await waitForText(page, "{ 1 member }", ".json");
  await page.selectOption("#form-of-value", "hex");
  assert.match(await text("pre"), /^000000 {2}7b 22 62 61 72 .* {2}\{"bar": 1\.20, "s\n/);
  assert.match(page.url(), /as=hex$/);
});

test("a truncated value says so", async () => {
  mock.set("large", JSON.stringify({ text: "x".repeat(70_000) }));
  await open(`#/key/${hexOf("large")}?as=json`);
  await waitForText(page, "The JSON is truncated");
  assert.match(await text("main"), /the first 64\sKiB of 68\.4\sKiB/);
});

test("a key is followed, and what was seen is kept", async () => {
  await open(`#/key/${hexOf("line1/temperature")}`);
  await waitForText(page, "polled every 2 s");
  mock.set("line1/temperature", "22.0");
  await waitForText(page, "22.0", "pre");
  await waitForText(page, "21.5", "table");
  await page.evaluate(() => { location.hash = "#/locks"; });
  await waitForText(page, "1 lock");
  await page.goBack();
  await waitForText(page, "21.5", "table");
});

test("a prefix is followed", async () => {
  await open("#/keys/line1/");
  await page.click("text=Follow changes");
  await waitForText(page, "polled every 2 s");
  mock.set("line1/temperature", "24.0");
  await waitForText(page, "line1/temperature", "[aria-label=Changes]");
});

test("an edit has the version that was seen as its condition", async () => {
  await open(`#/key/${hexOf("line1/temperature")}`);
  await page.click("text=Edit…");
  assert.match(await text("dialog"), /only if the key still has the version that you see: v2/);
  assert.match(await confirm({ value: "30", expiry: "seconds", seconds: "60" }), /Saved as version v7/);
  assert.deepEqual(mock.changes.at(-1), { path: "/api/set", hex: hexOf("line1/temperature"), value: "30", expires_in_ms: 60000, if_version: "v2" });
  await closeDialog();
  await waitForText(page, "30", "pre");
  await page.click("text=Edit…");
  mock.set("line1/temperature", "31");
  assert.match(await confirm({ value: "32" }), /nothing was changed: the key has version v8 now/);
  assert.equal(mock.entries.get(hexOf("line1/temperature")).value.toString(), "31");
  await closeDialog();
});

test("the expiry is set, and a key is deleted after a question", async () => {
  await open(`#/key/${hexOf("nightly")}`);
  await page.click("text=Set expiry…");
  assert.equal(await page.inputValue("dialog [name=fence]"), "f7");
  assert.match(await confirm({ seconds: "" }), /Set; the key has version/);
  assert.deepEqual(mock.changes.at(-1), { path: "/api/expire", hex: hexOf("nightly"), expires_in_ms: null, if_version: "v6", fence: "f7" });
  await closeDialog();
  await waitForText(page, "no expiry");
  await page.click("text=Delete…");
  await closeDialog();
  assert.ok(mock.entries.has(hexOf("nightly")));
  await page.click("text=Delete…");
  assert.equal(await confirm(), "Deleted.");
  assert.equal(mock.changes.at(-1).if_version, "v7");
  await closeDialog();
  await waitForText(page, "absent");
});

test("bytes are edited in hexadecimal", async () => {
  mock.set("binary", Buffer.from([0xff, 0x00, 0x0d]));
  await open(`#/key/${hexOf("binary")}`);
  await page.click("text=Edit…");
  assert.equal(await page.inputValue("dialog [name=value]"), "ff000d");
  assert.match(await confirm({ value: "ff0" }), /nothing was sent/);
  assert.match(await confirm({ value: "ff 01" }), /Saved/);
  assert.equal(mock.changes.at(-1).value_hex, "ff01");
  await closeDialog();
});

test("the release of a lock warns of its meaning", async () => {
  await open("#/locks");
  await waitForText(page, "1 lock");
  assert.match(await rows().first().textContent(), /nightlygateway-1.*no session.*2/s);
  await page.click("text=Release…");
  assert.match(await text("dialog"), /two clients can then work at the same time/);
  assert.equal(await confirm(), "Released.");
  assert.deepEqual(mock.changes.at(-1), { path: "/api/unlock", hex: hexOf("nightly"), holder: "gateway-1" });
  await closeDialog();
});

test("clients are filtered by a link and disconnected", async () => {
  await open("#/clients?user=line1");
  await waitForText(page, "1 connection");
  await page.getByRole("button", { name: "Disconnect all of this user…" }).click();
  assert.equal(await confirm(), "1 connection closed.");
  assert.deepEqual(mock.changes.at(-1), { path: "/api/disconnect", user: "line1" });
  await closeDialog();
  await page.getByRole("button", { name: "Rate" }).click();
  await page.waitForURL(/sort=rate/);
  await page.getByRole("link", { name: "gateway-1" }).click();
  await waitForText(page, "TLS 1.3");
  assert.match(await text("main"), /Subscriptions.*state\/#.*Watches.*line1\/temperature/s);
});

test("refusals and the audit trail have filters in their links", async () => {
  await open("#/refusals");
  await waitForText(page, "2 refusals");
  await page.selectOption("#filter-cause", "login");
  await waitForText(page, "1 refusal");
  assert.match(page.url(), /#\/refusals\?cause=login$/);
  await page.getByRole("link", { name: "Audit trail" }).click();
  await waitForText(page, "peer=192.0.2.7:5000");
});

test("the load lists slow requests, large keys and a sample of requests", async () => {
  await open("#/load/slow");
  await waitForText(page, "22\u00a0ms");
  await page.getByRole("link", { name: "Large keys" }).click();
  await waitForText(page, "2 pages of keys read");
  await page.getByRole("link", { name: "Monitor" }).click();
  await page.click("text=Start");
  await mock.viewer("/api/monitor");
  mock.monitor({ at_ms: 1, client: EVIL, user: null, verb: "GET", key: { hex: "61", text: "a" }, value_bytes: 3, result: "ok", duration_us: 90 });
  mock.monitor({ left_out: 12 });
  await waitForText(page, "1 request, 12 left out");
});

test("the cluster view has the engine, the policy and the actions", async () => {
  await open("#/cluster");
  await waitForText(page, "etcd-1");
  await page.getByRole("link", { name: "Policy" }).click();
  await page.fill("#filter-name", "line1/a");
  await page.press("#filter-name", "Enter");
  await waitForText(page, "Allowed (rule 3).");
  await page.getByRole("link", { name: "Actions" }).click();
  await page.getByRole("button", { name: "Drain…" }).click();
  assert.equal(await confirm(), "Draining; 2 connections left.");
  assert.deepEqual(mock.changes.at(-1), { path: "/api/drain", on: true, seconds: 10 });
  await closeDialog();
  await page.click("text=Back up…");
  const download = page.waitForEvent("download");
  assert.match(await confirm(), /downloaded/);
  assert.equal((await download).suggestedFilename(), "statestored.backup");
  await closeDialog();
});

test("the token is kept in memory alone, and changes need it", async () => {
  await open("#/keys", null);
  await waitForText(page, "this needs the token");
  await page.fill("#token", "a-wrong-token");
  await page.press("#token", "Enter");
  await waitForText(page, "this is not the token", "#state");
  await useToken(page, TOKEN);
  await waitForText(page, "5 keys in all");
  assert.equal(await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage }) + document.getElementById("token").value), "{}");
  await page.click("#forget");
  await waitForText(page, "this needs the token");
  await page.evaluate(() => { location.hash = "#/cluster/actions"; });
  await page.click("text=Reload…");
  assert.ok(await page.locator("dialog .choices button").nth(1).isDisabled());
});

test("a hidden page frees its connection", async () => {
  await open("#/overview");
  const left = new Promise((done) => mock.server.once("left", done));
  const turn = (isHidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
  await turn(true);
  await left;
  assert.equal(mock.viewers("/events"), 0);
  await turn(false);
  await mock.viewer("/events");
  await waitForText(page, "ready", "#state");
});

test("characters that reorder text are shown by their numbers", async () => {
  mock.set("pay\u202e001", "value\u2066");
  await open("#/keys");
  await page.getByRole("link", { name: "pay⟨U+202E⟩001" }).click();
  await waitForText(page, "value⟨U+2066⟩", "pre");
});

test("a failing server is reported", async () => {
  await open("#/keys");
  await waitForText(page, "5 keys in all");
  await page.route("**/api/locks*", (route) => route.fulfill({ status: 503, contentType: "application/json", body: '{"error": "the storage does not answer"}' }));
  await page.evaluate(() => { location.hash = "#/locks"; });
  await waitForText(page, "the storage does not answer");
});

test("the keyboard alone is enough", async () => {
  await open("#/overview");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("2");
  await waitForText(page, "5 keys in all");
  assert.equal(await page.evaluate(() => document.activeElement.id), "title");
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.id), "filter-key");
  await page.keyboard.type("3?line1");
  assert.match(page.url(), /#\/keys$/, "shortcuts do not work in fields");
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  assert.match(await text("dialog"), /Open a key/);
  await page.uncheck("#shortcuts-on");
  await page.keyboard.press("Escape");
  await page.keyboard.press("3");
  assert.match(page.url(), /#\/keys$/, "shortcuts can be turned off");
  await page.focus("#skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "title");
});
