// With API keys: the page itself comes without one, what it fetches needs it, and the key stays in its tab.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { accessibilityFaults, launchBrowser, openPage } from "./browser.mjs";
import { startServer } from "./espalier_server.mjs";

const KEY = "a-key-that-nobody-guesses";
const ADMIN_KEY = "a-key-that-an-administrator-has";

describe("with API keys", () => {
  let folder;
  let server;
  let browser;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "espalier-keys-"));
    writeFileSync(join(folder, "keys"), `shop ${KEY}\nboss ${ADMIN_KEY} admin\n`);
    server = await startServer("--debug-endpoints", "--api-key-file", join(folder, "keys"));
    browser = await launchBrowser();
  });
  after(async () => {
    await browser.close();
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  it("asks for the key, then works with it, also after a reload", async () => {
    const page = await openPage(browser, `${server.url}/`, { expected: /status of 401/ });
    const field = page.getByLabel("API key");
    await field.waitFor();
    await page.getByText("This server asks for a key").waitFor();
    assert.equal(await page.locator("#live").isVisible(), false);
    assert.deepEqual(await accessibilityFaults(page), []);

    await page.getByRole("button", { name: "Rank" }).click();
    await page.locator("#rank-status.failed").waitFor();
    assert.equal(await page.locator(".result").count(), 0);

    await field.fill("not the key");
    await page.keyboard.press("Enter");
    await page.getByText("The server does not know this key.").waitFor();
    assert.equal(await page.locator(".result").count(), 0);

    // What was refused is sent again with the right key.
    await field.fill(KEY);
    await page.getByRole("button", { name: "Use this key" }).click();
    await page.locator(".result").first().waitFor();
    await page.locator("#live").waitFor();
    assert.equal(await page.locator("#key-note").textContent(), "");

    await page.reload();
    await page.locator("#live").waitFor();
    assert.equal(await field.inputValue(), KEY);
    await page.getByRole("button", { name: "Rank" }).click();
    await page.locator(".result").first().waitFor();
    assert.equal(page.url().includes(KEY), false);
    assert.deepEqual(await page.evaluate(() => [localStorage.length, document.cookie]), [0, ""]);
    assert.deepEqual(page.faults, []);
  });

  it("shows batches to an administrator alone", async () => {
    const page = await openPage(browser, `${server.url}/#batches`, { expected: /status of 40[13]/ });
    await page.getByText("This needs an API key").waitFor();
    const useKey = async (key) => {
      await page.getByLabel("API key").fill(key);
      await page.getByRole("button", { name: "Use this key" }).click();
    };
    await useKey(KEY);
    await page.getByText("an administrator’s key is needed").waitFor();
    assert.equal(await page.locator("#batches-content").isVisible(), false);
    await page.locator("#live").waitFor();  // what any key may see

    await page.getByRole("tab", { name: "Rank" }).click();
    await page.getByRole("button", { name: "Rank" }).click();
    await page.locator(".result").first().waitFor();
    await page.getByRole("tab", { name: "Batches" }).click();
    await useKey(ADMIN_KEY);
    await page.locator("#timeline .box").first().waitFor();
    await page.locator(".trie-picture").waitFor();
    assert.deepEqual(page.faults, []);
  });

  it("keeps the key from other visitors", async () => {
    const page = await openPage(browser, `${server.url}/`, { expected: /status of 401/ });
    await page.getByText("This server asks for a key").waitFor();
    assert.equal(await page.getByLabel("API key").inputValue(), "");
    assert.deepEqual(page.faults, []);
  });
});
