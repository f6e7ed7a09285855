// The page at `/docs`: renders an OpenAPI document, and sends the requests that it describes.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { accessibilityFaults, launchBrowser, openPage } from "./browser.mjs";
import { startServer } from "./espalier_server.mjs";
import { openapiExample } from "./openapi_example.mjs";

const exampleInstead = (page) => page.route("**/openapi.json", (route) => route.fulfill({ json: openapiExample }));

describe("the API reference", () => {
  let server;
  let browser;
  before(async () => {
    server = await startServer();
    browser = await launchBrowser();
  });
  after(async () => {
    await browser.close();
    await server.stop();
  });

  /** Runs `steps(page)` on /docs with the example's description. */
  async function visit(options, steps) {
    const page = await openPage(browser, `${server.url}/docs`, { prepare: exampleInstead, ...options });
    try {
      await page.locator(".operation").first().waitFor();
      await steps(page);
      assert.deepEqual(page.faults, []);
    } finally {
      await page.context().close();
    }
  }
  const operation = (page, name) => page.getByRole("region", { name });

  it("groups operations by tag", () => visit({}, async (page) => {
    assert.deepEqual(await page.locator("#operations h2").allTextContents(), ["Ranking", "Other"]);
    assert.deepEqual(await page.locator(".operation h3").allTextContents(),
      ["POST /v1/rerank", "GET /health", "GET /v1/models", "GET /things/{id}"]);
    assert.deepEqual(await page.locator("#contents a").allTextContents(),
      ["POST /v1/rerank", "GET /health", "GET /v1/models", "GET /things/{id}"]);
    await page.locator("#contents a").last().click();
    assert.match(page.url(), /#get--things-id-$/);
  }));

  it("shows schemas with their references resolved", () => visit({}, async (page) => {
    const rerank = operation(page, "POST /v1/rerank");
    const field = (name) => rerank.locator(".fields > li").filter({ has: page.locator(`.field-name:text-is("${name}")`) })
      .first().locator("> .field-head");
    assert.equal(await field("query").textContent(), "querystringrequired");
    assert.equal(await field("documents").textContent(),
      "documentsarray of (string or Document)required1 to 2048 entries");
    assert.equal(await field("top_n").textContent(), "top_ninteger or nullat least 0default null");
    await rerank.getByText("Inside documents").click();
    await rerank.getByText("If it is Document:").waitFor();
    await rerank.getByText("200 The ranking").click();
    await rerank.getByText("Inside children").click();
    await rerank.getByText("Answer, as above").waitFor();  // a schema within itself ends
    assert.equal(await field("id").textContent(), "idstringrequired");  // through allOf
    await rerank.getByText("400 A mistake").click();
    await rerank.getByText("Said beside the reference").waitFor();
    const things = operation(page, "GET /things/{id}");
    await things.getByText('One of "up", "down"').waitFor();
    assert.equal(await things.getByText("<img src=x onerror=alert(1)>").count(), 1);
    assert.equal(await operation(page, "GET /health").getByText("no key needed").count(), 1);
    assert.equal(await rerank.getByText("no key needed").count(), 0);
  }));

  it("sends what is described, and shows the answer", () => visit({ expected: /status of 40/ }, async (page) => {
    const rerank = operation(page, "POST /v1/rerank");
    await rerank.getByText("Try it").click();
    const body = rerank.getByLabel("Body, application/json");
    assert.deepEqual(JSON.parse(await body.inputValue()), { query: "a web server", documents: ["nginx", "gimp"] });
    await rerank.getByRole("button", { name: "Send" }).click();
    await rerank.getByText("200 OK").waitFor();
    const answer = JSON.parse(await rerank.getByRole("region", { name: "Answer" }).textContent());
    assert.deepEqual(answer.results.map(({ index }) => index), [0, 1]);

    await body.fill("{");
    await rerank.getByRole("button", { name: "Send" }).click();
    await rerank.getByText("400 Bad Request").waitFor();

    const things = operation(page, "GET /things/{id}");
    await things.getByText("Try it").click();
    await things.getByLabel("order (query)").fill("down & up");
    const [request] = await Promise.all([page.waitForRequest("**/things/**"),
      things.getByRole("button", { name: "Send" }).click()]);
    assert.equal(request.url(), `${server.url}/things/a%2Fb?order=down+%26+up`);
    await things.getByText("404 Not Found").waitFor();
  }));

  for (const [name, view] of Object.entries({
    light: {}, dark: { colorScheme: "dark" }, phone: { viewport: { width: 360, height: 740 } },
  })) {
    it(`is accessible: ${name}`, () => visit(view, async (page) => {
      for (const summary of await page.locator("summary:visible").all()) await summary.click();
      assert.deepEqual(await accessibilityFaults(page), []);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
    }));
  }
});
