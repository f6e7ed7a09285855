// LlamaIndex: embeddings through OpenAI's and Jina's classes, reranking through Cohere's.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CohereRerank } from '@llamaindex/cohere';
import { TextNode } from '@llamaindex/core/schema';
import { JinaAIEmbedding } from '@llamaindex/jinaai';
import { OpenAIEmbedding } from '@llamaindex/openai';
import { Server, assertRanking, assertVectors, embedByCommand, kModel, rerankByCommand } from './espalier.mjs';
import { record } from './recorder.mjs';
import { kDocuments, kQuery, kTexts } from './texts.mjs';

let server;

before(async () => {
  server = await Server.start();
});
after(() => server.stop());

const nodesOf = (texts) => texts.map((text) => ({ node: new TextNode({ text }) }));

test('OpenAIEmbedding', async () => {
  const requests = await record(server.root, async (root) => {
    const embedding = new OpenAIEmbedding({ model: kModel, apiKey: 'a-key', baseURL: `${root}/v1`, dimensions: 64 });
    assertVectors(await embedding.getTextEmbeddings(kTexts), embedByCommand(kTexts, '--dimensions', '64'));
    assertVectors([await embedding.getQueryEmbedding({ type: 'text', text: kQuery })],
        embedByCommand([kQuery], '--dimensions', '64'));
  });
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), [
    ['POST', '/v1/embeddings', { model: kModel, dimensions: 64, input: kTexts, encoding_format: 'base64' }],
    ['POST', '/v1/embeddings', { model: kModel, dimensions: 64, input: [kQuery], encoding_format: 'base64' }],
  ]);
});

test('JinaAIEmbedding, which sends texts as objects', async () => {
  const requests = await record(server.root, async (root) => {
    const options = { model: kModel, apiKey: 'a-key', baseURL: `${root}/v1/embeddings` };
    const documents = new JinaAIEmbedding({ ...options, dimensions: 64 });
    assertVectors(await documents.getTextEmbeddings(kTexts), embedByCommand(kTexts, '--dimensions', '64'));
    const queries = new JinaAIEmbedding({ ...options, task: 'retrieval.query' });
    assertVectors([await queries.getTextEmbedding(kQuery)], embedByCommand([kQuery], '--prompt-name', 'query'));
  });
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), [
    ['POST', '/v1/embeddings',
      { model: kModel, encoding_type: 'float', dimensions: 64, input: kTexts.map((text) => ({ text })) }],
    ['POST', '/v1/embeddings',
      { model: kModel, encoding_type: 'float', task: 'retrieval.query', input: [{ text: kQuery }] }],
  ]);
});

test('CohereRerank', async () => {
  const requests = await record(server.root, async (root) => {
    const reranker = new CohereRerank({ model: kModel, apiKey: 'a-key', baseUrl: root, topN: 3 });
    const nodes = nodesOf(kDocuments);
    const ranked = await reranker.postprocessNodes(nodes, kQuery);
    assertRanking(ranked.map(({ node, score }) => ({ index: nodes.findIndex((given) => given.node === node), score })),
        rerankByCommand(kQuery, kDocuments).slice(0, 3));
  });
  assert.deepEqual(requests, [{ method: 'POST', path: '/v1/rerank', authorization: 'Bearer a-key',
    body: { query: kQuery, model: kModel, top_n: 3, documents: kDocuments } }]);
});

test('mistakes keep their status and message', async () => {
  const embedding = new OpenAIEmbedding(
      { model: kModel, apiKey: 'a-key', baseURL: `${server.root}/v1`, dimensions: 1000, maxRetries: 0 });
  await assert.rejects(embedding.getTextEmbeddings(['a']), (error) => {
    assert.equal(error.constructor.name, 'BadRequestError');
    assert.equal(error.param, 'dimensions');
    return true;
  });
  const reranker = new CohereRerank({ model: kModel, apiKey: 'a-key', baseUrl: server.root, topN: -1 });
  await assert.rejects(reranker.postprocessNodes(nodesOf(['a']), kQuery), (error) => {
    assert.equal(error.constructor.name, 'BadRequestError');
    assert.equal(error.statusCode, 400);
    assert.match(error.message, /top_n/);
    return true;
  });
});
