// LangChain, through OpenAI's and through Cohere's classes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CohereEmbeddings, CohereRerank } from '@langchain/cohere';
import { Document } from '@langchain/core/documents';
import { OpenAIEmbeddings } from '@langchain/openai';
import { CohereClient } from 'cohere-ai';
import OpenAI from 'openai';
import { Server, assertRanking, assertVectors, embedByCommand, kModel, rerankByCommand } from './espalier.mjs';
import { record } from './recorder.mjs';
import { kDocuments, kQuery, kTexts } from './texts.mjs';

let server;

// @langchain/cohere has no base URL of its own, but takes a client of Cohere's SDK.
const cohereOf = (root) => new CohereClient({ baseUrl: root, token: 'a-key', maxRetries: 0 });

before(async () => {
  server = await Server.start();
});
after(() => server.stop());

test('OpenAIEmbeddings', async () => {
  const requests = await record(server.root, async (root) => {
    const embeddings = new OpenAIEmbeddings(
        { model: kModel, apiKey: 'a-key', dimensions: 64, configuration: { baseURL: `${root}/v1` } });
    assertVectors(await embeddings.embedDocuments(kTexts), embedByCommand(kTexts, '--dimensions', '64'));
    assertVectors([await embeddings.embedQuery(kQuery)], embedByCommand([kQuery], '--dimensions', '64'));
  });
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), [
    ['POST', '/v1/embeddings', { model: kModel, input: kTexts, dimensions: 64, encoding_format: 'base64' }],
    ['POST', '/v1/embeddings', { model: kModel, input: kQuery, dimensions: 64, encoding_format: 'base64' }],
  ]);
});

test('OpenAIEmbeddings throws what OpenAI\'s SDK throws', async () => {
  const embeddings = new OpenAIEmbeddings(
      { model: kModel, apiKey: 'a-key', maxRetries: 0, configuration: { baseURL: `${server.root}/v1` } });
  await assert.rejects(embeddings.embedDocuments(['']), (error) => {
    assert.equal(error.status, 400);
    assert.match(error.message, /input\[0\]/);
    assert.ok(error instanceof OpenAI.BadRequestError, error);
    return true;
  });
});

test('CohereEmbeddings tells queries from documents', async () => {
  const requests = await record(server.root, async (root) => {
    const embeddings = new CohereEmbeddings({ model: kModel, client: cohereOf(root) });
    assertVectors(await embeddings.embedDocuments(kTexts), embedByCommand(kTexts));
    assertVectors([await embeddings.embedQuery(kQuery)], embedByCommand([kQuery], '--prompt-name', 'query'));
  });
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), [
    ['POST', '/v1/embed', { model: kModel, texts: kTexts, input_type: 'search_document', embedding_types: ['float'] }],
    ['POST', '/v1/embed', { model: kModel, texts: [kQuery], input_type: 'search_query', embedding_types: ['float'] }],
  ]);
});

test('CohereRerank', async () => {
  const expected = rerankByCommand(kQuery, kDocuments).slice(0, 2);
  const requests = await record(server.root, async (root) => {
    const reranker = new CohereRerank({ model: kModel, client: cohereOf(root), topN: 2 });
    const ranked = await reranker.rerank(kDocuments, kQuery);
    assertRanking(ranked.map(({ index, relevanceScore }) => ({ index, score: relevanceScore })), expected);
    const documents = kDocuments.map((pageContent) => new Document({ pageContent }));
    const compressed = await reranker.compressDocuments(documents, kQuery);
    assertRanking(compressed.map((document) => ({ index: documents.indexOf(document),
      score: document.metadata.relevanceScore })), expected);
  });
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), Array(2).fill(['POST', '/v1/rerank',
    { model: kModel, query: kQuery, documents: kDocuments, top_n: 2, max_chunks_per_doc: null }]));
});
