// Chromium with a fresh profile, and pages of it that are watched.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

export class Browser {
  static async start() {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), "chromium-"));
    browser.context = await chromium.launchPersistentContext(browser.profile, {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      headless: true,
      viewport: { width: 1200, height: 800 },
      args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    });
    return browser;
  }

  // Opens a link of the page at `origin`. `complaints` are the errors and warnings of the browser.
  async open(origin, link = "") {
    const page = await this.context.newPage();
    page.complaints = [];
    page.hosts = new Set();
    // The browser reports each rejected request on its own.
    const isComplaint = (message) => ["error", "warning"].includes(message.type()) && !message.text().startsWith("Failed to load resource");
    page.on("console", (message) => isComplaint(message) && page.complaints.push(message.text()));
    page.on("pageerror", (error) => page.complaints.push(String(error)));
    page.on("request", (request) => request.url().startsWith("http") && page.hosts.add(new URL(request.url()).origin));
    await page.goto(`${origin}/${link}`);
    return page;
  }

  // Closes a page, and checks what holds for all of them.
  async close(page, origin) {
    assert.equal(await page.evaluate(() => window.hacked), undefined, "something that a client has sent was executed");
    assert.deepEqual([...page.hosts], [origin], "the page asks only its own server");
    assert.deepEqual(page.complaints, []);
    await page.close();
  }

  async stop() {
    await this.context?.close();
    rmSync(this.profile, { recursive: true, force: true });
  }
}

export async function useToken(page, token) {
  await page.fill("#token", token);
  await page.press("#token", "Enter");
  await page.waitForSelector("#forget:not([hidden])");
}

// Waits until the view has this text.
export const waitForText = (page, text, where = "main") =>
  page.waitForFunction(([selector, wanted]) => document.querySelector(selector)?.textContent.includes(wanted), [where, text]);
