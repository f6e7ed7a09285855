// Vercel's AI SDK, through its providers for OpenAI-compatible servers and for Cohere.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createCohere } from '@ai-sdk/cohere';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embed, embedMany, rerank } from 'ai';
import { Server, assertRanking, assertVectors, embedByCommand, kModel, rerankByCommand } from './espalier.mjs';
import { record } from './recorder.mjs';
import { kDocuments, kQuery, kTexts } from './texts.mjs';

let server;

before(async () => {
  server = await Server.start();
});
after(() => server.stop());

const openAiOf = (root) => createOpenAICompatible({ name: 'espalier', baseURL: `${root}/v1`, apiKey: 'a-key' });
const cohereOf = (root) => createCohere({ baseURL: `${root}/v2`, apiKey: 'a-key' });

test('embeddings of an OpenAI-compatible server', async () => {
  const requests = await record(server.root, async (root) => {
    const { embeddings, usage } = await embedMany({ model: openAiOf(root).embeddingModel(kModel), values: kTexts,
      providerOptions: { espalier: { dimensions: 64 } } });
    assertVectors(embeddings, embedByCommand(kTexts, '--dimensions', '64'));
    assert.ok(usage.tokens > 0);
  });
  assert.deepEqual(requests, [{ method: 'POST', path: '/v1/embeddings', authorization: 'Bearer a-key',
    body: { model: kModel, input: kTexts, encoding_format: 'float', dimensions: 64 } }]);
});

test('embeddings of Cohere', async () => {
  const requests = await record(server.root, async (root) => {
    const model = cohereOf(root).embedding(kModel);
    const documents = await embedMany(
        { model, values: kTexts, providerOptions: { cohere: { inputType: 'search_document' } } });
    assertVectors(documents.embeddings, embedByCommand(kTexts));
    assert.ok(documents.usage.tokens > 0);
    const query = await embed({ model, value: kQuery });
    assertVectors([query.embedding], embedByCommand([kQuery], '--prompt-name', 'query'));
  });
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), [
    ['POST', '/v2/embed', { model: kModel, embedding_types: ['float'], texts: kTexts, input_type: 'search_document' }],
    ['POST', '/v2/embed', { model: kModel, embedding_types: ['float'], texts: [kQuery], input_type: 'search_query' }],
  ]);
});

test('rerank of Cohere', async () => {
  const requests = await record(server.root, async (root) => {
    const { ranking } = await rerank(
        { model: cohereOf(root).reranking(kModel), query: kQuery, documents: kDocuments, topN: 3 });
    assertRanking(ranking.map(({ originalIndex, score }) => ({ index: originalIndex, score })),
        rerankByCommand(kQuery, kDocuments).slice(0, 3));
  });
  assert.deepEqual(requests, [{ method: 'POST', path: '/v2/rerank', authorization: 'Bearer a-key',
    body: { model: kModel, query: kQuery, documents: kDocuments, top_n: 3 } }]);
});

test('mistakes are APICallErrors with our message', async () => {
  const wrong = [
    [() => embedMany({ model: openAiOf(server.root).embeddingModel(kModel), values: ['a', ''] }), /input\[1\]/],
    [() => rerank({ model: cohereOf(server.root).reranking(kModel), query: kQuery, documents: ['a'], topN: -1 }),
      /top_n/],
  ];
  for (const [call, message] of wrong) {
    await assert.rejects(call, (error) => {
      assert.ok(APICallError.isInstance(error), error);
      assert.equal(error.statusCode, 400);
      assert.equal(error.isRetryable, false);
      assert.match(error.message, message);
      return true;
    });
  }
});
