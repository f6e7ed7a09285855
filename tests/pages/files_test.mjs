// The page's files as they are served: headers, caching, what is not there, and that no file is missing.
import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, describe, it } from "node:test";
import { startServer } from "./espalier_server.mjs";

/** GET of a path that fetch() would tidy up: {status, type: of its error}. */
const getAsWritten = (url, path) => new Promise((resolve, reject) => {
  const { hostname, port } = new URL(url);
  request({ hostname, port, path }, (response) => {
    let body = "";
    response.on("data", (bytes) => { body += bytes; });
    response.on("end", () => resolve({ status: response.statusCode, type: JSON.parse(body).error.type }));
  }).on("error", reject).end();
});

describe("the files of the page", () => {
  let server;
  before(async () => { server = await startServer(); });
  after(() => server.stop());
  const get = (path, headers = {}) => fetch(server.url + path, { headers });

  it("come with a strict policy, and are asked for anew each time", async () => {
    for (const [path, type] of [["/", "text/html; charset=utf-8"], ["/docs", "text/html; charset=utf-8"],
      ["/page/app.js", "text/javascript; charset=utf-8"], ["/page/base.css", "text/css; charset=utf-8"],
      ["/page/icon.svg", "image/svg+xml"]]) {
      const { status, headers } = await get(path);
      assert.equal(status, 200, path);
      assert.equal(headers.get("content-type"), type);
      const policy = headers.get("content-security-policy");
      assert.match(policy, /^default-src 'none';/);
      assert.doesNotMatch(policy, /unsafe|http|\*/);
      assert.equal(headers.get("x-content-type-options"), "nosniff");
      assert.equal(headers.get("referrer-policy"), "no-referrer");
      assert.equal(headers.get("cache-control"), "no-cache");
    }
  });

  it("are not sent again to who has them", async () => {
    const first = await get("/page/app.js");
    const etag = first.headers.get("etag");
    assert.match(etag, /^"[0-9a-f]{16}"$/);
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const again = await get("/page/app.js", { "If-None-Match": known });
      assert.equal(again.status, 304, known);
      assert.equal(again.headers.get("etag"), etag);
      assert.equal(await again.text(), "");
    }
    assert.equal((await get("/page/app.js", { "If-None-Match": '"other"' })).status, 200);
    assert.notEqual((await get("/page/rank.js")).headers.get("etag"), etag);
  });

  it("name only files that there are", async () => {
    const seen = new Set();
    const wanted = ["/", "/docs"];
    while (wanted.length > 0) {
      const path = wanted.pop();
      if (seen.has(path)) continue;
      seen.add(path);
      const response = await get(path);
      assert.equal(response.status, 200, path);
      const text = await response.text();
      assert.doesNotMatch(text, /https?:\/\/(?!www\.w3\.org\/)/, `${path} names another host`);
      assert.doesNotMatch(text, /<script(?! type="module" src=)|<style|\sstyle="|\son[a-z]+="/, `${path}: inline code`);
      for (const [, name] of text.matchAll(/(?:src|href)="(page\/[^"]+)"/g)) wanted.push(`/${name}`);
      for (const [, name] of text.matchAll(/from "\.\/([^"]+)"/g)) wanted.push(`/page/${name}`);
    }
    assert.ok(seen.size > 20, [...seen].join(" "));
  });

  it("are nothing but files", async () => {
    for (const path of ["/page/", "/page/none.js", "/page/../models/config.json", "/page/%2e%2e/config.json",
      "/page/app.js/", "/docs/", "/index.html"]) {
      assert.deepEqual(await getAsWritten(server.url, path), { status: 404, type: "not_found_error" }, path);
    }
    assert.equal((await fetch(server.url, { method: "POST", body: "{}" })).status, 405);
  });
});

describe("--no-page", () => {
  it("turns all of it off, and nothing else", async () => {
    const server = await startServer("--no-page");
    try {
      for (const path of ["/", "/docs", "/page/app.js"]) {
        assert.equal((await fetch(server.url + path)).status, 404, path);
      }
      assert.equal((await fetch(`${server.url}/health`)).status, 200);
    } finally {
      await server.stop();
    }
  });
});
