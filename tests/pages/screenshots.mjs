// Writes the pictures of docs/page.md: screenshots.mjs FOLDER. From a real server, with clients in the background
// so that its figures live. Not a test; `cmake --build build/release --target page_screenshots` runs it.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launchBrowser, openPage } from "./browser.mjs";
import { startServer } from "./espalier_server.mjs";

const folder = process.argv[2];
if (!folder) throw new Error("usage: screenshots.mjs FOLDER");
mkdirSync(folder, { recursive: true });

const server = await startServer("--debug-endpoints");
const browser = await launchBrowser();

/** `clients` that rank now and then, or, `eager`, all the time, until the function that comes back is called. */
function startTraffic({ clients, eager }) {
  const queries = ["a web server", "edit photographs", "large cat", "relational database", "play music"];
  const topics = ["nginx", "apache2", "gimp", "tiger", "postgresql", "ffmpeg", "wireshark", "python3", "vlc"];
  let stopped = false;
  const client = async (number) => {
    for (let turn = number; !stopped; ++turn) {
      const some = 3 + (turn * 7) % 14;
      const documents = Array.from({ length: some }, (_, index) =>
        `${topics[(turn + index) % topics.length]}: package ${(turn * 31 + index) % 97} of the distribution`);
      await fetch(`${server.url}/v1/rerank`, {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ query: queries[turn % queries.length], documents }),
      });
      const pause = eager ? 0 : 60 + 220 * (1 + Math.sin(turn / 9 + number));
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  };
  const running = Array.from({ length: clients }, (_, number) => client(number));
  return () => { stopped = true; return Promise.all(running); };
}

/**
 * A page on which the visitor has done `steps`, once its figures have a history of `seconds`; the picture begins at
 * the element `from` and is `height` pixels high, or goes down to the end.
 */
async function shoot(name, { path = "/", seconds = 0, from = "body", height, ...options }, steps) {
  const page = await openPage(browser, server.url + path, { reducedMotion: "reduce", ...options });
  await page.waitForTimeout(1000 * seconds);
  await steps(page);
  await page.mouse.move(0, 0);
  const y = await page.locator(from).evaluate((element) => element.getBoundingClientRect().top + scrollY);
  const whole = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true,
    clip: { x: 0, y, width: page.viewportSize().width, height: height ?? whole - y } });
  await page.context().close();
}

const rank = async (page) => {
  await page.getByRole("button", { name: "Rank" }).click();
  await page.locator("#rank-trie .box").first().waitFor();
};

const width = 1180;
let stopTraffic = startTraffic({ clients: 3 });
await shoot("page-rank", { seconds: 62, viewport: { width, height: 900 } }, rank);
await shoot("page-similarity-dark", { seconds: 40, viewport: { width, height: 900 }, colorScheme: "dark" },
  async (page) => {
    await page.getByRole("tab", { name: "Similarity" }).click();
    await page.getByRole("button", { name: "Compare" }).click();
    await page.locator("#similarity-trie .box").first().waitFor();
  });
await stopTraffic();
stopTraffic = startTraffic({ clients: 6, eager: true });
await shoot("page-batches", { seconds: 62, viewport: { width, height: 900 } }, async (page) => {
  await page.getByRole("tab", { name: "Batches" }).click();
  await page.locator(".trie-picture").waitFor();
  await page.locator("#timeline .box").last().focus();
  await page.waitForTimeout(300);
});
await stopTraffic();
await shoot("page-phone", { viewport: { width: 360, height: 780 }, deviceScaleFactor: 1.25,
  from: "[aria-labelledby=ranking-title]" }, rank);
if ((await fetch(`${server.url}/openapi.json`)).ok) {
  await shoot("docs", { path: "/docs", viewport: { width, height: 900 }, height: 900 },
    (page) => page.locator(".operation").first().waitFor());
}
await browser.close();
await server.stop();
