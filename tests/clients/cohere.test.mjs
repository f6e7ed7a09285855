// Cohere's SDK, both versions of its client.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cohere, CohereClient, CohereClientV2 } from 'cohere-ai';
import { Server, assertRanking, assertVectors, embedByCommand, kHiddenSize, kModel, rerankByCommand }
  from './espalier.mjs';
import { record } from './recorder.mjs';
import { kDocuments, kQuery, kTexts } from './texts.mjs';

const kKey = 'a-key';

let server;
let v1;
let v2;

const rankingOf = (answer) => answer.results.map(({ index, relevanceScore }) => ({ index, score: relevanceScore }));
const cosine = (a, b) => {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};

before(async () => {
  server = await Server.start();
  const options = { baseUrl: server.root, token: kKey, maxRetries: 0 };
  v1 = new CohereClient(options);
  v2 = new CohereClientV2(options);
});
after(() => server.stop());

test('v1 ranks documents, also those that are objects', async () => {
  const requests = await record(server.root, async (root) => {
    const client = new CohereClient({ baseUrl: root, token: kKey });
    const answer = await client.rerank({ model: kModel, query: kQuery,
      documents: kDocuments.map((text, i) => (i % 2 === 0 ? text : { text })), topN: 3, returnDocuments: true });
    const expected = rerankByCommand(kQuery, kDocuments).slice(0, 3);
    assertRanking(rankingOf(answer), expected);
    assert.deepEqual(answer.results.map((result) => result.document.text),
        expected.map(({ index }) => kDocuments[index]));
    assert.equal(typeof answer.id, 'string');
    assert.equal(answer.meta.billedUnits.searchUnits, 1);
  });
  assert.equal(requests.length, 1);
  const [{ method, path, authorization, body }] = requests;
  assert.deepEqual([method, path, authorization], ['POST', '/v1/rerank', `Bearer ${kKey}`]);
  assert.deepEqual(Object.keys(body), ['model', 'query', 'documents', 'top_n', 'return_documents']);
});

test('v2 ranks documents', async () => {
  const requests = await record(server.root, async (root) => {
    const client = new CohereClientV2({ baseUrl: root, token: kKey });
    const answer = await client.rerank({ model: kModel, query: kQuery, documents: kDocuments, maxTokensPerDoc: 1000 });
    assertRanking(rankingOf(answer), rerankByCommand(kQuery, kDocuments));
    assert.ok(answer.results.every((result) => !('document' in result)));
  });
  assert.deepEqual(requests, [{ method: 'POST', path: '/v2/rerank', authorization: `Bearer ${kKey}`,
    body: { model: kModel, query: kQuery, documents: kDocuments, max_tokens_per_doc: 1000 } }]);
});

test('v2 cuts documents to the tokens asked for', async () => {
  const long = kDocuments.map((text) => `${text} ${'and so on '.repeat(200)}`);
  const whole = await v2.rerank({ model: kModel, query: kQuery, documents: long });
  const cut = await v2.rerank({ model: kModel, query: kQuery, documents: long, maxTokensPerDoc: 8 });
  assert.ok(cut.meta.tokens.inputTokens < whole.meta.tokens.inputTokens / 2,
      `${cut.meta.tokens.inputTokens} tokens of ${whole.meta.tokens.inputTokens}`);
});

test('v2 embeds documents and queries', async () => {
  const requests = await record(server.root, async (root) => {
    const client = new CohereClientV2({ baseUrl: root, token: kKey });
    const documents = await client.embed(
        { model: kModel, texts: kTexts, inputType: 'search_document', embeddingTypes: ['float'] });
    assertVectors(documents.embeddings.float, embedByCommand(kTexts));
    assert.deepEqual(documents.texts, kTexts);
    assert.ok(documents.meta.billedUnits.inputTokens > 0);
    const queries = await client.embed({ model: kModel, texts: kTexts, inputType: 'search_query',
      embeddingTypes: ['float'], truncate: 'END', outputDimension: 64 });
    assertVectors(queries.embeddings.float, embedByCommand(kTexts, '--prompt-name', 'query', '--dimensions', '64'));
  });
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), [
    ['POST', '/v2/embed', { model: kModel, texts: kTexts, input_type: 'search_document', embedding_types: ['float'] }],
    ['POST', '/v2/embed', { model: kModel, texts: kTexts, input_type: 'search_query', embedding_types: ['float'],
      truncate: 'END', output_dimension: 64 }],
  ]);
});

test('v2 embeds in several types at once', async () => {
  const { embeddings } = await v2.embed({ model: kModel, texts: kTexts, inputType: 'search_document',
    embeddingTypes: ['float', 'base64', 'int8', 'uint8', 'binary', 'ubinary'] });
  const expected = embedByCommand(kTexts);
  assertVectors(embeddings.float, expected);
  assertVectors(embeddings.base64.map((text) => {
    const bytes = Buffer.from(text, 'base64');
    return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
  }), expected);
  expected.forEach((vector, row) => {
    const { int8, uint8, binary, ubinary } = Object.fromEntries(
        Object.entries(embeddings).map(([type, vectors]) => [type, vectors[row]]));
    assert.ok(int8.every((value) => Number.isInteger(value) && value >= -128 && value <= 127));
    assert.ok(uint8.every((value) => Number.isInteger(value) && value >= 0 && value <= 255));
    assert.ok(cosine(int8, vector) > 0.99, `int8: ${cosine(int8, vector)}`);
    assert.ok(cosine(uint8.map((value) => value - 128), vector) > 0.99);
    const signs = Array.from({ length: kHiddenSize / 8 }, (_, byte) => vector.slice(8 * byte, 8 * byte + 8)
        .reduce((bits, value) => 2 * bits + (value > 0 ? 1 : 0), 0));  // the first dimension is the highest bit
    assert.deepEqual(ubinary, signs);
    assert.deepEqual(binary, signs.map((bits) => bits - 128));
  });
});

test('v1 embeds, with types and without', async () => {
  const requests = await record(server.root, async (root) => {
    const client = new CohereClient({ baseUrl: root, token: kKey });
    const typed = await client.embed(
        { model: kModel, texts: kTexts, inputType: 'search_query', embeddingTypes: ['float'] });
    assert.equal(typed.responseType, 'embeddings_by_type');
    assertVectors(typed.embeddings.float, embedByCommand(kTexts, '--prompt-name', 'query'));
    const plain = await client.embed({ model: kModel, texts: kTexts });
    assert.equal(plain.responseType, 'embeddings_floats');
    assertVectors(plain.embeddings, embedByCommand(kTexts));
  });
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), [
    ['POST', '/v1/embed', { model: kModel, texts: kTexts, input_type: 'search_query', embedding_types: ['float'] }],
    ['POST', '/v1/embed', { model: kModel, texts: kTexts }],
  ]);
});

test('a mistake is a BadRequestError with our message', async () => {
  const wrong = [
    [() => v1.rerank({ model: kModel, query: kQuery, documents: [] }), /documents/],
    [() => v2.rerank({ model: kModel, query: kQuery, documents: [] }), /documents/],
    [() => v2.rerank({ model: kModel, query: kQuery, documents: ['a'], topN: -1 }), /top_n/],
    [() => v2.embed({ model: kModel, texts: [], inputType: 'search_query', embeddingTypes: ['float'] }), /texts/],
    [() => v2.embed({ model: kModel, texts: ['a'], inputType: 'search_query', embeddingTypes: ['hex'] }),
      /embedding_types/],
    [() => v2.embed({ model: kModel, texts: ['a'], inputType: 'nosuch', embeddingTypes: ['float'] }), /input_type/],
    [() => v2.embed({ model: kModel, texts: ['word '.repeat(5000)], inputType: 'search_document',
      embeddingTypes: ['float'], truncate: 'NONE' }), /2048/],
  ];
  for (const [call, message] of wrong) {
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof Cohere.BadRequestError, error);
      assert.equal(error.statusCode, 400);
      assert.match(error.message, message);
      return true;
    });
  }
});

test('a route that is not served is a NotFoundError', async () => {
  await assert.rejects(v2.chat({ model: kModel, messages: [{ role: 'user', content: 'hello' }] }),
      (error) => error instanceof Cohere.NotFoundError && /nothing at this path/.test(error.message));
});

test('a wrong key is an UnauthorizedError', async () => {
  const guarded = await Server.startWithKey(kKey);
  const request = { model: kModel, query: kQuery, documents: kDocuments };
  try {
    for (const Client of [CohereClient, CohereClientV2]) {
      await assert.rejects(new Client({ baseUrl: guarded.root, token: 'wrong' }).rerank(request),
          (error) => error instanceof Cohere.UnauthorizedError && error.statusCode === 401);
      const answer = await new Client({ baseUrl: guarded.root, token: kKey }).rerank(request);
      assertRanking(rankingOf(answer), rerankByCommand(kQuery, kDocuments));
    }
  } finally {
    await guarded.stop();
  }
});
