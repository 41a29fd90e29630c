// The page of a real server: that the two fit together.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { Browser, useToken, waitForText } from "./browser.js";
import { Server, TOKEN, USER } from "./server.js";

const EVIL = '<img src=x onerror="window.hacked=1"><svg onload="window.hacked=1">';
const linkOf = (key) => `#/key/${Buffer.from(key).toString("hex")}`;

let server, browser, page;

before(async () => {
  server = await Server.start();
  browser = await Browser.start();
  await server.statestore("set", "greeting", '{"hello": "world"}');
  await server.statestore("set", EVIL, EVIL);
  await server.watcher(EVIL, EVIL);
  await server.holder("gateway-1", "nightly");
});

after(async () => {
  await browser?.stop();
  await server?.stop();
});

beforeEach(async () => {
  page = await browser.open(server.http);
  await waitForText(page, "ready", "#state");
  await useToken(page, TOKEN);
});

afterEach(() => browser.close(page, server.http));

const go = (link) => page.evaluate((hash) => { location.hash = hash; }, link);

test("figures change by themselves", async () => {
  await go("#/load");
  await page.waitForSelector("tbody tr");
  const earlier = await page.locator("tbody tr", { hasText: /^set/ }).locator("td").nth(2).textContent();
  await server.statestore("set", "another", "value");
  await page.waitForFunction((before) => document.querySelector("tbody tr td:nth-child(3)").textContent !== before, earlier);
});

test("keys and values of clients are shown as text", async () => {
  await go(linkOf(EVIL));
  await waitForText(page, EVIL, "pre");
  assert.ok((await page.textContent(".facts")).includes(EVIL), "the watching client is named");
  await go(linkOf("greeting"));
  await waitForText(page, '"hello": "world"', ".json");
  await go("#/keys?match=greet*");
  await page.getByRole("link", { name: "greeting" }).waitFor();
});

test("locks and clients are listed", async () => {
  await go("#/locks");
  await page.locator("tbody tr", { hasText: "nightly" }).filter({ hasText: "gateway-1" }).waitFor();
  for (const link of ["#/clients", "#/sessions"]) {
    await go(link);
    const cells = page.locator("tbody tr", { hasText: "onerror" }).locator("td");
    await cells.first().waitFor();
    assert.deepEqual((await cells.allTextContents()).slice(0, 2), [EVIL, USER], link);
  }
});

test("a change is asked about first, and done", async () => {
  await go("#/cluster/actions");
  await page.click("text=Back up…");
  const download = page.waitForEvent("download");
  await page.locator("dialog .choices button").nth(1).click();
  assert.equal((await download).suggestedFilename(), "statestored.backup");
  await waitForText(page, "downloaded", "dialog");
});
