// Clients that cannot run here (Python's, and whole applications): the requests that their sources make, and of the
// answers what their sources read.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Server, assertRanking, assertVectors, embedByCommand, kModel, rerankByCommand } from './espalier.mjs';
import { kDocuments, kQuery, kTexts } from './texts.mjs';

let server;

before(async () => {
  server = await Server.start();
});
after(() => server.stop());

async function post(path, body, headers = {}) {
  const answer = await fetch(server.root + path,
      { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers } });
  return { status: answer.status, body: await answer.json() };
}

const rankingOf = ({ body }) => body.results.map(({ index, relevance_score }) => ({ index, score: relevance_score }));
const vectorsOf = ({ body }) => body.data.map((entry) => entry.embedding);

test('Dify: OpenAI-API-compatible, without a key', async () => {
  const noKey = { Authorization: '' };
  const embedded = await post('/v1/embeddings', { model: kModel, input: kTexts }, noKey);
  assertVectors(vectorsOf(embedded), embedByCommand(kTexts));
  assert.ok(embedded.body.usage.prompt_tokens > 0);
  for (const top_n of [null, kDocuments.length]) {
    const ranked = await post('/v1/rerank', { model: kModel, query: kQuery, documents: kDocuments, top_n }, noKey);
    assertRanking(rankingOf(ranked), rerankByCommand(kQuery, kDocuments));
  }
});

test('Open WebUI: the prefix as prompt_name, and an external reranker', async () => {
  const user = { Authorization: 'Bearer ', 'X-OpenWebUI-User-Name': 'somebody', 'X-OpenWebUI-User-Id': '1' };
  const query = await post('/v1/embeddings', { input: [kQuery], model: kModel, prompt_name: 'query' }, user);
  assertVectors(vectorsOf(query), embedByCommand([kQuery], '--prompt-name', 'query'));
  const ranked = await post('/v1/rerank',
      { model: kModel, query: kQuery, documents: kDocuments, top_n: kDocuments.length }, user);
  const scores = ranked.body.results.toSorted((a, b) => a.index - b.index).map((result) => result.relevance_score);
  const expected = rerankByCommand(kQuery, kDocuments).toSorted((a, b) => a.index - b.index);
  assertVectors([scores], [expected.map(({ score }) => score)]);
});

test('Cohere\'s SDK for Python, in Haystack and LangChain', async () => {
  for (const max_tokens_per_doc of [4096, null]) {
    const ranked = await post('/v2/rerank',
        { model: kModel, query: kQuery, documents: kDocuments, top_n: 2, max_tokens_per_doc },
        { Authorization: 'Bearer a-key', 'X-Client-Name': 'haystack' });
    assertRanking(rankingOf(ranked), rerankByCommand(kQuery, kDocuments).slice(0, 2));
  }
});

test('LlamaIndex\'s and Haystack\'s classes for TEI', async () => {
  const embedded = await post('/embed', { inputs: kTexts, truncate: true });
  assertVectors(embedded.body, embedByCommand(kTexts));
  const ranked = await post('/rerank', { query: kQuery, texts: kDocuments, raw_scores: false, truncate: true,
    truncation_direction: 'Right' });
  assertRanking(ranked.body, rerankByCommand(kQuery, kDocuments));
  const wrong = await post('/rerank', { query: kQuery, texts: [7], raw_scores: false });
  assert.equal(wrong.status, 422);
  assert.match(wrong.body.error, /texts\[0\]/);
  assert.equal(wrong.body.error_type, 'Validation');
});

test('who looks for `results` and finds none reads `detail`', async () => {
  const wrong = await post('/v1/rerank', { model: kModel, query: kQuery, documents: [] });
  assert.equal(wrong.status, 400);
  assert.match(wrong.body.detail, /documents/);
});
