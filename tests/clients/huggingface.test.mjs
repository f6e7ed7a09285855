// Hugging Face's inference client, which speaks to text-embeddings-inference (TEI) by an endpoint's URL.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { InferenceClient, InferenceClientProviderApiError } from '@huggingface/inference';
import { Server, assertVectors, embedByCommand } from './espalier.mjs';
import { record } from './recorder.mjs';
import { kDocuments, kQuery, kTexts } from './texts.mjs';

let server;

before(async () => {
  server = await Server.start();
});
after(() => server.stop());

const clientOf = (endpointUrl) => new InferenceClient('a-key', { endpointUrl, retry_on_error: false });

test('feature extraction', async () => {
  const requests = await record(server.root, async (root) => {
    const client = clientOf(`${root}/embed`);
    assertVectors(await client.featureExtraction({ inputs: kTexts, normalize: true, truncate: true }),
        embedByCommand(kTexts));
    assertVectors(await client.featureExtraction({ inputs: kTexts[0], prompt_name: 'query' }),
        embedByCommand([kTexts[0]], '--prompt-name', 'query'));
  });
  assert.deepEqual(requests, [
    { method: 'POST', path: '/embed', authorization: 'Bearer a-key',
      body: { inputs: kTexts, normalize: true, truncate: true } },
    { method: 'POST', path: '/embed', authorization: 'Bearer a-key',
      body: { inputs: kTexts[0], prompt_name: 'query' } },
  ]);
});

test('sentence similarity', async () => {
  const requests = await record(server.root, async (root) => {
    const similarity = await clientOf(`${root}/similarity`)
        .sentenceSimilarity({ inputs: { source_sentence: kQuery, sentences: kDocuments } });
    const [query, ...documents] = embedByCommand([kQuery, ...kDocuments]);
    assertVectors([similarity],
        [documents.map((vector) => vector.reduce((sum, value, i) => sum + value * query[i], 0))]);
  });
  assert.deepEqual(requests.map(({ method, path, body }) => [method, path, body]), [
    ['POST', '/similarity', { inputs: { source_sentence: kQuery, sentences: kDocuments } }],
  ]);
});

test('a mistake arrives with our message', async () => {
  await assert.rejects(clientOf(`${server.root}/embed`).featureExtraction({ inputs: ['a'], prompt_name: 'nosuch' }),
      (error) => {
        assert.ok(error instanceof InferenceClientProviderApiError, error);
        assert.equal(error.httpResponse.status, 422);
        assert.match(error.httpResponse.body.error, /prompt_name/);
        assert.equal(error.httpResponse.body.error_type, 'Validation');
        return true;
      });
});
