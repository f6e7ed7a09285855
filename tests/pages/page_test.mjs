// The page at `/` in a real browser, on a real server: what people do with it, and that it shows what the API says.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { accessibilityFaults, launchBrowser, openPage } from "./browser.mjs";
import { startServer, timeLimit } from "./espalier_server.mjs";

const HOSTILE = "<img src=x onerror=alert(1)>";
const DOCUMENTS = ["gimp: GNU Image Manipulation Program", "nginx: small, powerful and scalable web and proxy server",
  "large feline of forests in most of Asia", HOSTILE];
const VIEWS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { viewport: { width: 360, height: 740 } },
};

let browser;
before(async () => { browser = await launchBrowser(); });
after(() => browser.close());

/** Runs `steps(page)` on a new page, which must be free of faults at its end. */
async function visit(server, options, steps) {
  const page = await openPage(browser, `${server.url}/`, options);
  try {
    await steps(page);
    assert.deepEqual(page.faults, []);
  } finally {
    await page.context().close();
  }
}

async function rank(page, query, documents) {
  await page.getByLabel("Query").fill(query);
  await page.getByLabel("Documents").fill(documents.join("\n"));
  await page.getByRole("button", { name: "Rank" }).click();
  await page.getByText(/ranked\. Best:/).waitFor();
}

async function ask(server, path, body, headers = {}) {
  const response = await fetch(server.url + path, {
    method: body ? "POST" : "GET", body: body && JSON.stringify(body),
    headers: { ...(body && { "Content-Type": "application/json" }), ...headers },
  });
  assert.equal(response.status, 200, path);
  return response.json();
}

describe("the page", () => {
  let server;
  before(async () => { server = await startServer("--debug-endpoints"); });
  after(() => server.stop());

  it("ranks what somebody types", () => visit(server, {}, async (page) => {
    await rank(page, "a web server", DOCUMENTS);
    const { results } = await ask(server, "/v1/rerank", { query: "a web server", documents: DOCUMENTS });
    assert.deepEqual(await page.locator(".result .text").allTextContents(),
      results.map(({ index }) => DOCUMENTS[index]));
    assert.deepEqual(await page.locator(".result .score").allTextContents(),
      results.map(({ relevance_score: score }) => `score ${score.toFixed(3)}`));
    const widths = await page.locator(".result .fill").evaluateAll((bars) =>
      bars.map((bar) => parseFloat(bar.style.width)));
    for (const [place, { relevance_score: score }] of results.entries()) {
      assert.ok(Math.abs(widths[place] - 100 * score) < 0.1, `bar ${place}`);
    }
    assert.equal(await page.locator("#rank-results img").count(), 0);
  }));

  it("shows the best of many, and the others on demand", () => visit(server, {}, async (page) => {
    const documents = Array.from({ length: 45 }, (_, index) => `package number ${index}`);
    await rank(page, "a web server", documents);
    const shown = page.locator(".result .text:visible");
    assert.equal(await shown.count(), 20);
    await page.getByText("25 more documents").click();
    await page.locator(".result").nth(44).waitFor();
    assert.deepEqual((await shown.allTextContents()).sort(), [...documents].sort());
  }));

  it("ranks as the instruction says", () => visit(server, {}, async (page) => {
    await page.getByLabel("Instruction").fill("Find animals");
    await rank(page, "a web server", DOCUMENTS);
    const { results } = await ask(server, "/v1/rerank",
      { query: "a web server", documents: DOCUMENTS, instruction: "Find animals" });
    assert.equal(await page.locator(".score").first().textContent(),
      `score ${results[0].relevance_score.toFixed(3)}`);
  }));

  it("takes paragraphs where there are blank lines", () => visit(server, {}, async (page) => {
    await rank(page, "a web server", ["nginx", "serves pages", "", "gimp", "edits pictures"]);
    assert.match(await page.locator("#rank-count").textContent(), /^2 documents/);
    assert.deepEqual((await page.locator(".result .text").allTextContents()).sort(),
      ["gimp\nedits pictures", "nginx\nserves pages"]);
  }));

  it("draws the trie of the request", () => visit(server, {}, async (page) => {
    await rank(page, "a web server", DOCUMENTS);
    const { trie } = await ask(server, "/v1/rerank",
      { query: "a web server", documents: DOCUMENTS, return_trie: true });
    assert.ok(trie.nodes.length > DOCUMENTS.length, "a shared node, and one for each document");
    const tree = page.getByRole("tree");
    const boxes = tree.getByRole("treeitem");
    assert.equal(await boxes.count(), trie.nodes.length);
    const figures = (await page.locator(".trie .figures b").allTextContents()).map((text) =>
      Number(text.replace(/\D/g, "")));
    assert.deepEqual(figures, [trie.tokens, trie.rows, trie.tokens - trie.rows]);

    // Its area is that of the tokens: the shared box is as tall as its inputs.
    const [root, leaf] = [trie.nodes[0], trie.nodes.findIndex((node) => node.inputs === 1)];
    const size = (index) => boxes.nth(index).evaluate((box) => [box.offsetWidth, box.offsetHeight]);
    const [rootWidth, rootHeight] = await size(0);
    const [leafWidth, leafHeight] = await size(leaf);
    assert.ok(Math.abs(rootHeight / leafHeight - root.inputs) < 0.2);
    assert.ok(Math.abs(rootWidth / leafWidth - root.tokens / trie.nodes[leaf].tokens) < 0.2);

    // The keyboard walks from the root to its child and back; what has the focus is explained.
    await boxes.first().focus();
    await page.keyboard.press("ArrowRight");
    const child = trie.nodes.findIndex((node) => node.parent === 0);
    assert.equal(await boxes.nth(child).evaluate((box) => box === document.activeElement), true);
    assert.match(await page.locator(".trie .figure-detail").textContent(),
      new RegExp(`^${trie.nodes[child].tokens} tokens? from position ${trie.nodes[child].position}`));
    await page.keyboard.press("ArrowLeft");
    assert.equal(await boxes.first().evaluate((box) => box === document.activeElement), true);
    assert.equal(await tree.locator("[tabindex='0']").count(), 1);

    await page.getByText("The same as a table").click();
    await page.locator(".trie tbody tr").last().waitFor();
    assert.equal(await page.locator(".trie tbody tr").count(), trie.nodes.length);
  }));

  it("compares texts in a heat map", () => visit(server, {}, async (page) => {
    const texts = ["tiger", "a large cat with stripes", "relational database"];
    await page.getByRole("tab", { name: "Similarity" }).click();
    await page.getByLabel("Texts").fill(texts.join("\n"));
    await page.getByLabel("Prompt").selectOption("query");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText(/compared\. Closest/).waitFor();
    const { data, trie } = await ask(server, "/v1/embeddings", { input: texts, prompt_name: "query", return_trie: true });
    const cosine = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
    const shown = (await page.locator(".heat td").allTextContents()).map(Number);
    assert.equal(shown.length, 9);
    for (const [index, value] of shown.entries()) {
      const [i, j] = [Math.floor(index / 3), index % 3];
      const expected = cosine(data[i].embedding, data[j].embedding);
      assert.ok(Math.abs(value - expected) <= 0.0051, `cell ${i} ${j}: ${value}, not ${expected}`);
    }
    assert.match(await page.locator(".heat tbody th").nth(1).textContent(), /a large cat with stripes/);
    await page.locator(".heat td").nth(2).hover();
    assert.match(await page.locator("#similarity-results .figure-detail").textContent(), /tiger · relational database/);
    assert.equal(await page.locator("#similarity-trie [role=treeitem]").count(), trie.nodes.length);
  }));

  it("shows live figures, and asks for none while nobody looks", () => visit(server, {}, async (page) => {
    const total = async (id) => Number((await page.locator(`#${id} .tile-note`).textContent()).replace(/\D/g, ""));
    await page.locator("#live").waitFor();
    assert.equal(await page.locator("#model").textContent(), "espalier-mini");
    const began = await total("live-tokens");
    await rank(page, "salt and ships", DOCUMENTS);
    await page.waitForFunction((least) =>
      Number(document.querySelector("#live-tokens .tile-note").textContent.replace(/\D/g, "")) > least, began);
    await page.locator("#live-tokens svg").waitFor();
    assert.ok((await ask(server, "/stats")).tokens_total >= await total("live-tokens"));

    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await page.waitForTimeout(200);
    const asked = page.asked.length;
    await page.waitForTimeout(2500);
    assert.equal(page.asked.length, asked);
    await page.evaluate(() => {
      delete document.hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await page.waitForRequest("**/stats");
  }));

  it("draws the timeline and the trie of all requests", () => visit(server, {}, async (page) => {
    await rank(page, "a web server", DOCUMENTS);
    await page.getByRole("tab", { name: "Batches" }).click();
    const boxes = page.getByRole("listbox", { name: "Timeline" }).getByRole("option");
    await boxes.first().waitFor();
    const events = (await ask(server, "/debug/timeline")).traceEvents.filter((event) => event.ph === "X");
    const last = [...new Set(events.map((event) => event.args.batch))].slice(-12);
    assert.equal(await boxes.count(), events.filter((event) => last.includes(event.args.batch)).length);
    await boxes.last().focus();
    const { args } = events.filter((event) => event.cat === "pass").at(-1);
    assert.match(await page.locator("#timeline .figure-detail").textContent(),
      new RegExp(`^batch ${args.batch} \\(worker\\): .*${args.sequences} inputs? of .* in ${args.compact_rows} rows`));
    await page.keyboard.press("ArrowLeft");
    assert.match(await page.locator("#timeline .figure-detail").textContent(), /^(plan|batch) /);
    await page.locator("#timeline").getByText("The same as a table").click();
    await page.locator("#timeline tbody tr").last().waitFor();
    assert.equal(await page.locator("#timeline tbody tr").count(),
      events.filter((event) => event.cat === "pass" && last.includes(event.args.batch)).length);

    const picture = page.getByRole("img", { name: "The prefix trie of the last batch" });
    await picture.waitFor();
    assert.ok(await picture.evaluate(async (image) => { await image.decode(); return image.naturalWidth; }) > 0);
    await page.locator("#all-trie").getByText("The same as text").click();
    await page.locator("#all-trie pre").waitFor();
    assert.match(await page.locator("#all-trie pre").textContent(), /tokens @ 0, shared by/);

    await ask(server, "/v1/embeddings", { input: "one more" });
    await page.getByRole("button", { name: "Refresh" }).click();
    await boxes.filter({ hasText: new RegExp(`^batch ${args.batch + 1} `) }).waitFor();
  }));

  it("says what is missing, and what the server refuses", () => visit(server, {
    expected: /status of 400/,
  }, async (page) => {
    await page.getByLabel("Query").fill("");
    await page.getByRole("button", { name: "Rank" }).click();
    await page.getByText("Type a query.").waitFor();
    await page.getByRole("tab", { name: "Similarity" }).click();
    await page.getByLabel("Texts").fill("one alone");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText("Type at least two texts.").waitFor();
    await page.getByLabel("Texts").fill("one\ntwo");
    await page.evaluate(() => { document.querySelector("#similarity-prompt").append(new Option("none such")); });
    await page.getByLabel("Prompt").selectOption("none such");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.locator("#similarity-status.failed").getByText("prompt_name").waitFor();
  }));

  it("remembers the tab in its address, and moves between tabs with arrows", () => visit(server, {}, async (page) => {
    await page.getByRole("tab", { name: "Rank" }).focus();
    await page.keyboard.press("ArrowRight");
    assert.equal(new URL(page.url()).hash, "#similarity");
    await page.reload();
    assert.equal(await page.getByLabel("Texts").isVisible(), true);
    assert.equal(await page.getByLabel("Query").isVisible(), false);
  }));

  it("moves nothing for those who want no motion", () => visit(server, { reducedMotion: "reduce" }, async (page) => {
    await rank(page, "a web server", DOCUMENTS);
    assert.equal(await page.locator(".fill").first().evaluate((bar) => getComputedStyle(bar).animationName), "none");
  }));

  for (const [name, view] of Object.entries(VIEWS)) {
    it(`is accessible: ${name}`, () => visit(server, { ...view, reducedMotion: "reduce" }, async (page) => {
      const check = async (what) => {
        assert.deepEqual(await accessibilityFaults(page), [], what);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false,
          `${what}: wider than the screen`);
      };
      await page.locator("#live").waitFor();
      await check("before anything is done");
      await rank(page, "a web server", DOCUMENTS);
      await page.getByText("The same as a table").click();
      await check("a ranking");
      await page.getByRole("tab", { name: "Similarity" }).click();
      await page.getByRole("button", { name: "Compare" }).click();
      await page.locator(".heat").waitFor();
      await check("a heat map");
      await page.getByRole("tab", { name: "Batches" }).click();
      await page.locator(".trie-picture").waitFor();
      await page.locator("#timeline").getByText("The same as a table").click();
      await check("batches");
      await page.getByRole("button", { name: "Rank" }).waitFor({ state: "hidden" });
    }));
  }
});

describe("what a server has not", () => {
  it("is said to be gone when it is", async () => {
    const server = await startServer();
    let running = true;
    try {
      await visit(server, { expected: /ERR_CONNECTION|ERR_EMPTY_RESPONSE|status of 503/ }, async (page) => {
        await page.locator("#live").waitFor();
        await server.stop();
        running = false;
        await page.getByRole("button", { name: "Rank" }).click();
        await page.locator("#rank-status.failed").getByText("does not answer").waitFor();
      });
    } finally {
      if (running) await server.stop();
    }
  });

  it("explains what needs --debug-endpoints", async () => {
    const server = await startServer();
    try {
      await visit(server, { expected: /status of 404/ }, async (page) => {
        await page.getByRole("tab", { name: "Batches" }).click();
        await page.getByText("Start it with --debug-endpoints").waitFor();
        assert.equal(await page.locator("#batches-content").isVisible(), false);
      });
    } finally {
      await server.stop();
    }
  });
});

describe("the page of a server of several models", () => {
  const folder = process.env.ESPALIER_MINI_MODEL;
  let server;
  before(async () => { server = await startServer("--model", `twin=${folder}`); });
  after(() => server.stop());

  const models = (page, form) => page.locator(`#${form}-model option`).allTextContents();
  const sentModel = async (page, path, button) => {
    const [request] = await Promise.all([
      page.waitForRequest((sent) => sent.method() === "POST" && sent.url().endsWith(path)),
      page.getByRole("button", { name: button }).click()]);
    return request.postDataJSON().model;
  };

  it("asks the model that is chosen", () => visit(server, {}, async (page) => {
    await page.locator("#rank-model").waitFor();
    assert.equal(await page.locator("#model").textContent(), "espalier-mini, twin");
    assert.deepEqual(await models(page, "rank"), ["espalier-mini", "twin"]);
    await page.locator("#rank-model").selectOption("twin");
    assert.equal(await sentModel(page, "/v1/rerank", "Rank"), "twin");
    await page.getByText(/ranked\. Best:/).waitFor();

    await page.getByRole("tab", { name: "Similarity" }).click();
    assert.deepEqual(await models(page, "similarity"), ["espalier-mini", "twin"]);
    assert.equal(await sentModel(page, "/v1/embeddings", "Compare"), "espalier-mini");
    await page.locator("#similarity-model").selectOption("twin");
    assert.equal(await sentModel(page, "/v1/embeddings", "Compare"), "twin");
    await page.getByText(/compared\. Closest/).waitFor();
    assert.deepEqual(await accessibilityFaults(page), []);
  }));
});

describe("the page of a server of one model", () => {
  let server;
  before(async () => { server = await startServer(); });
  after(() => server.stop());

  it("offers no choice", () => visit(server, {}, async (page) => {
    await page.locator("#live").waitFor();
    for (const form of ["rank", "similarity"]) assert.equal(await page.locator(`#${form}-model-field`).isHidden(), true);
    const [request] = await Promise.all([
      page.waitForRequest((sent) => sent.url().endsWith("/v1/rerank")), page.getByRole("button", { name: "Rank" }).click()]);
    assert.equal("model" in request.postDataJSON(), false);
  }));
});
