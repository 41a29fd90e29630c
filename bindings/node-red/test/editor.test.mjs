/** The editor of Node-RED in a real browser: palette, dialogs, help and examples. */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { chromium } from "playwright-core";
import { NodeRed, configOf } from "./system.mjs";

const KINDS = ["get", "set", "delete", "watch", "lock", "election"];
const EXAMPLES = readdirSync(join(import.meta.dirname, "../examples")).map((name) => name.replace(".json", ""));

/** A page with the editor, and what its scripts threw. Ends with its test. */
async function editorOf(t, red) {
  const profile = mkdtempSync(join(tmpdir(), "chromium-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    viewport: { width: 1400, height: 1000 },
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  t.after(async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  });
  const page = await context.newPage();
  page.errors = [];
  page.on("pageerror", (error) => page.errors.push(String(error)));
  await page.goto(red.url);
  await page.waitForSelector('.red-ui-palette-node[data-palette-type="statestore-get"]', { state: "attached" });
  await page.waitForSelector("#red-ui-loading-progress", { state: "hidden" });
  return page;
}

const isValid = (page, id) => page.evaluate((node) => RED.nodes.node(node).valid, id);

/** Opens the dialog of a node, and returns its text. */
async function edit(page, id) {
  await page.evaluate((node) => RED.editor.edit(RED.nodes.node(node)), id);
  await page.waitForSelector("#node-dialog-ok");
  return page.textContent("#dialog-form");
}

/** Fills a field and leaves it, after which the editor validates it. */
async function change(page, selector, value) {
  await page.fill(selector, value);
  await page.press(selector, "Tab");
}

async function save(page, button = "#node-dialog-ok") {
  await page.click(button);
  await page.waitForSelector(button, { state: "detached" });
}

test("the palette has the nodes, with their colour, icon and label", async (t) => {
  const red = await NodeRed.start(t);
  const page = await editorOf(t, red);
  for (const kind of KINDS) {
    const node = page.locator(`.red-ui-palette-node[data-palette-type="statestore-${kind}"]`);
    const label = await node.locator(".red-ui-palette-label").textContent();
    assert.equal(label.replace(/\s+/g, " "), `statestore ${kind}`);
    assert.equal(await node.evaluate((it) => getComputedStyle(it).backgroundColor), "rgb(143, 193, 199)");
    const icon = await node.locator(".red-ui-palette-icon").evaluate((it) => it.style.backgroundImage);
    assert.match(icon, /node-red-contrib-statestore\/statestore\.svg/);
  }
  const icon = await fetch(`${red.url}/icons/node-red-contrib-statestore/statestore.svg`);
  assert.match(icon.headers.get("content-type"), /svg/);
  assert.deepEqual(page.errors, []);
});

test("each dialog opens with its help, and saves", async (t) => {
  const red = await NodeRed.start(t);
  // As the palette makes them: with the defaults of the editor.
  const page = await editorOf(t, red);
  await page.evaluate((kinds) => {
    const z = RED.workspaces.active();
    RED.nodes.import([
      { id: "server", type: "statestore-config", url: "mqtt://127.0.0.1:1", timeout: "10", tls: "none" },
      ...kinds.map((kind, index) => {
        const { defaults } = RED.nodes.getType(`statestore-${kind}`);
        const values = Object.fromEntries(Object.entries(defaults).map(([name, { value }]) => [name, value]));
        return { ...values, id: kind, type: `statestore-${kind}`, server: "server", z, x: 200, y: 60 + 60 * index, wires: [] };
      }),
    ]);
    RED.view.redraw(true);
  }, KINDS);
  const required = { watch: ["key", "line/*"], lock: ["lock", "pump"], election: ["election", "line"] };
  for (const kind of KINDS) {
    const text = await edit(page, kind);
    assert.doesNotMatch(text, /statestore-/, `a label of ${kind} has no text`);
    assert.equal(await isValid(page, kind), required[kind] === undefined, `the defaults of ${kind}`);
    await page.fill("#node-input-name", `my ${kind}`);
    if (required[kind] !== undefined) {
      const [field, value] = required[kind];
      const input = page.locator(`#node-input-${field}`);
      const isTyped = !(await input.isVisible());
      await (isTyped ? page.locator(`#node-input-${field} + .red-ui-typedInput-container input`).first().fill(value) : input.fill(value));
    }
    await page.evaluate((type) => RED.sidebar.help.show(type), `statestore-${kind}`);
    await page.waitForFunction(() => document.querySelector(".red-ui-help h3")?.textContent.match(/Inputs|Outputs/));
    await save(page);
    assert.equal(await page.evaluate((id) => RED.nodes.node(id).name, kind), `my ${kind}`);
    assert.equal(await isValid(page, kind), true, kind);
  }
  assert.deepEqual(page.errors, []);
});

test("the status of a node shows an outage and a missing server", async (t) => {
  const red = await NodeRed.start(t);
  const get = { type: "statestore-get", key: "topic", keyType: "msg", format: "text", x: 200 };
  // Nothing listens on this port.
  const server = configOf({ url: "mqtt://127.0.0.1:1" });
  await red.deploy([server, { ...get, id: "cut", server: "server", y: 100 }, { ...get, id: "alone", server: "", y: 200 }]);
  const page = await editorOf(t, red);
  const statusOf = (id) => page.locator(`#${id} .red-ui-flow-node-status-label`);
  await statusOf("cut").filter({ hasText: "disconnected: Unreachable" }).waitFor();
  await statusOf("alone").filter({ hasText: "no server" }).waitFor();
  assert.deepEqual(page.errors, []);
});

test("dialogs reject values that cannot work", async (t) => {
  const red = await NodeRed.start(t);
  const set = { id: "set", type: "statestore-set", server: "server", key: "topic", keyType: "msg", value: "payload", valueType: "msg", condition: "always", expiresIn: "", timeout: "", coalesce: false };
  await red.deploy([configOf({ url: "mqtt://127.0.0.1:1" }), set]);
  const page = await editorOf(t, red);
  await edit(page, "set");
  await change(page, "#node-input-expiresIn", "soon");
  await page.locator("#node-input-expiresIn.input-error").waitFor();
  await change(page, "#node-input-expiresIn", "60");
  await page.locator("#node-input-expiresIn:not(.input-error)").waitFor();
  await save(page);
  assert.equal(await isValid(page, "set"), true);
  assert.deepEqual(page.errors, []);
});

test("the dialog of a server has files or texts for TLS, and its secrets are deployed", async (t) => {
  const red = await NodeRed.start(t);
  await red.deploy([configOf({ url: "mqtt://127.0.0.1:1" }), { id: "watch", type: "statestore-watch", server: "server", mode: "key", key: "key", initial: true, overflow: "latest", format: "text" }]);
  const page = await editorOf(t, red);
  await page.evaluate(() => RED.editor.editConfig("", "statestore-config", "server"));
  await page.waitForSelector("#node-config-dialog-ok");
  assert.doesNotMatch(await page.textContent("#node-config-dialog-edit-form"), /statestore-config/);
  await change(page, "#node-config-input-url", "http://127.0.0.1");
  await page.locator("#node-config-input-url.input-error").waitFor();
  await change(page, "#node-config-input-url", "mqtts://127.0.0.1:1");
  assert.equal(await page.isVisible("#node-config-input-caFile"), false);
  await page.selectOption("#node-config-input-tls", "files");
  await page.locator("#node-config-input-caFile").waitFor();
  assert.equal(await page.isVisible("#node-config-input-ca"), false);
  await page.selectOption("#node-config-input-tls", "pem");
  await page.fill("#node-config-input-key", "line 1\nline 2");
  await page.fill("#node-config-input-user", "gateway");
  await page.fill("#node-config-input-password", "secret");
  await save(page, "#node-config-dialog-ok");
  const deployed = page.waitForResponse((response) => response.url().endsWith("/flows") && response.request().method() === "POST");
  await page.click("#red-ui-header-button-deploy");
  assert.equal((await deployed).status(), 200);
  const credentials = await (await fetch(`${red.url}/credentials/statestore-config/server`)).json();
  assert.deepEqual([credentials.user, credentials.has_password, credentials.has_key], ["gateway", true, true]);
  assert.deepEqual(page.errors, []);
});

test("each example imports", async (t) => {
  const red = await NodeRed.start(t);
  const page = await editorOf(t, red);
  for (const example of EXAMPLES) {
    await page.evaluate(() => RED.actions.invoke("core:show-examples-import-dialog"));
    const label = (text) => page.locator("#red-ui-clipboard-dialog-import-tab-examples .red-ui-treeList-label", { hasText: text });
    await label("node-red-contrib-statestore").click();
    await label(example).click();
    await page.locator("#red-ui-clipboard-dialog-ok:not([disabled])").click();
    await page.waitForFunction((name) => RED.nodes.filterNodes({}).some((node) => RED.nodes.workspace(node.z)?.label === name), example);
  }
  const invalid = await page.evaluate(() => RED.nodes.filterNodes({}).filter((node) => !node.valid).map((node) => node.type));
  assert.deepEqual(invalid, []);
  assert.deepEqual(page.errors, []);
});
