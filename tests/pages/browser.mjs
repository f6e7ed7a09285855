// Debian's Chromium, driven by playwright-core, and pages whose faults are kept: what they write to the console,
// exceptions, and requests to anybody but 127.0.0.1.
import { createRequire } from "node:module";
import { timeLimit } from "./espalier_server.mjs";

const modules = createRequire(`${process.env.ESPALIER_NODE_MODULES}/`);
const { chromium } = modules("playwright-core");
const axe = modules("axe-core");

/** Nothing of its own goes over the network, and no name but 127.0.0.1 leads anywhere. */
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"];

/** A browser with a fresh profile. */
export const launchBrowser = () => chromium.launch({
  executablePath: process.env.ESPALIER_CHROMIUM ?? "/usr/bin/chromium", args: FLAGS, timeout: timeLimit(60_000),
});

/**
 * A page of its own. `page.faults`: what went wrong so far, as text. `expected`: console lines that are no fault,
 * such as the browser's own about an answer 401.
 */
export async function openPage(browser, url, { expected = /^$/, prepare, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1240, height: 900 }, ...options });
  context.setDefaultTimeout(timeLimit(20_000));
  const page = await context.newPage();
  page.faults = [];
  page.asked = [];  // paths of all requests
  page.on("console", (message) => {
    const text = message.text();
    if (["error", "warning"].includes(message.type()) && !expected.test(text)) page.faults.push(`console: ${text}`);
  });
  page.on("pageerror", (error) => page.faults.push(`exception: ${error.stack}`));
  context.on("request", (request) => {
    const address = new URL(request.url());
    page.asked.push(address.pathname);
    const own = address.protocol === "blob:" || address.protocol === "data:";
    if (!own && address.hostname !== "127.0.0.1") page.faults.push(`request to ${request.url()}`);
  });
  await prepare?.(page);
  await page.goto(url);
  return page;
}

/** What axe finds to be serious or critical, as "rule: element" lines. */
export async function accessibilityFaults(page) {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document));
  return violations.filter(({ impact }) => ["serious", "critical"].includes(impact)).flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.html} ${node.failureSummary}`));
}
