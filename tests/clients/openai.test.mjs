// OpenAI's SDK.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { Server, assertVectors, embedByCommand, kEndToken, kHiddenSize, kModel, tokenizeByCommand }
  from './espalier.mjs';
import { record } from './recorder.mjs';
import { kTexts } from './texts.mjs';

const kKey = 'a-key-that-nobody-else-has';

let server;
let client;

const clientOf = (root, options = {}) => new OpenAI({ baseURL: `${root}/v1`, apiKey: kKey, maxRetries: 0, ...options });
const embeddingsOf = (answer) => answer.data.map((entry) => entry.embedding);

before(async () => {
  server = await Server.start();
  client = clientOf(server.root);
});
after(() => server.stop());

test('vectors without a format, which the SDK asks for as base64', async () => {
  const requests = await record(server.root, async (root) => {
    const answer = await clientOf(root).embeddings.create({ model: kModel, input: kTexts });
    assertVectors(embeddingsOf(answer), embedByCommand(kTexts));
    assert.deepEqual(answer.data.map((entry) => entry.index), [0, 1, 2]);
    assert.equal(answer.model, kModel);
    assert.ok(answer.usage.prompt_tokens > 0);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens);
  });
  assert.deepEqual(requests, [{ method: 'POST', path: '/v1/embeddings', authorization: `Bearer ${kKey}`,
    body: { model: kModel, input: kTexts, encoding_format: 'base64' } }]);
});

test('vectors as floats, of one string', async () => {
  const answer = await client.embeddings.create(
      { model: kModel, input: kTexts[0], encoding_format: 'float', user: 'somebody' });
  assertVectors(embeddingsOf(answer), embedByCommand([kTexts[0]]));
});

test('base64 asked for by name is left to the caller: little-endian f32', async () => {
  const answer = await client.embeddings.create({ model: kModel, input: kTexts, encoding_format: 'base64' });
  const vectors = embeddingsOf(answer).map((text) => {
    const bytes = Buffer.from(text, 'base64');
    return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
  });
  assertVectors(vectors, embedByCommand(kTexts));
});

test('fewer dimensions', async () => {
  for (const encoding_format of ['float', undefined]) {
    const answer = await client.embeddings.create({ model: kModel, input: kTexts, dimensions: 48, encoding_format });
    assertVectors(embeddingsOf(answer), embedByCommand(kTexts, '--dimensions', '48'));
  }
});

test('token ids are what the text would have become', async () => {
  const ids = tokenizeByCommand(kTexts);
  const expected = embedByCommand(kTexts);
  assertVectors(embeddingsOf(await client.embeddings.create({ model: kModel, input: ids })), expected);
  assertVectors(embeddingsOf(await client.embeddings.create({ model: kModel, input: ids[0] })), [expected[0]]);
  const ended = ids.map((list) => [...list, kEndToken]);
  assertVectors(embeddingsOf(await client.embeddings.create({ model: kModel, input: ended })), expected);
});

test('a prompt by name, a field that the SDK passes on', async () => {
  const answer = await client.embeddings.create({ model: kModel, input: kTexts, prompt_name: 'query' });
  assertVectors(embeddingsOf(answer), embedByCommand(kTexts, '--prompt-name', 'query'));
});

test('a large batch comes back in order', async () => {
  const texts = Array.from({ length: 300 }, (_, i) => `item ${i % 100} of the list`);
  const answer = await client.embeddings.create({ model: kModel, input: texts });
  const distinct = embedByCommand(texts.slice(0, 100));
  assertVectors(embeddingsOf(answer), texts.map((_, i) => distinct[i % 100]));
});

test('models are listed and retrieved', async () => {
  const listed = [];
  for await (const entry of client.models.list()) listed.push(entry);
  assert.deepEqual(listed.map((entry) => [entry.id, entry.object]), [[kModel, 'model']]);
  assert.equal(typeof listed[0].created, 'number');
  assert.equal(typeof listed[0].owned_by, 'string');
  assert.deepEqual(await client.models.retrieve(kModel), listed[0]);
  await assert.rejects(client.models.retrieve('another-model'),
      (error) => error instanceof OpenAI.NotFoundError && error.status === 404 && /espalier-mini/.test(error.message));
});

test('a mistake is a BadRequestError that names its field', async () => {
  const wrong = [
    [{ input: ['fine', ''] }, 'input[1]', /empty/],
    [{ input: 'fine', dimensions: kHiddenSize + 1 }, 'dimensions', /256/],
    [{ input: 'fine', encoding_format: 'hex' }, 'encoding_format', /base64/],
    [{ input: [[1, 99_999]] }, 'input[0][1]', /99999/],
    [{ input: 'fine', prompt_name: 'nosuch' }, 'prompt_name', /query/],
  ];
  for (const [fields, param, message] of wrong) {
    await assert.rejects(client.embeddings.create({ model: kModel, ...fields }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, error);
      assert.equal(error.status, 400);
      assert.equal(error.param, param);
      assert.equal(error.type, 'invalid_request_error');
      assert.match(error.message, message);
      return true;
    });
  }
});

test('an unknown route is a NotFoundError', async () => {
  await assert.rejects(client.chat.completions.create({ model: kModel, messages: [] }),
      (error) => error instanceof OpenAI.NotFoundError && /nothing at this path/.test(error.message));
});

test('a wrong key is an AuthenticationError', async () => {
  const guarded = await Server.startWithKey(kKey);
  try {
    await assert.rejects(clientOf(guarded.root, { apiKey: 'wrong' }).embeddings.create({ model: kModel, input: 'a' }),
        (error) => error instanceof OpenAI.AuthenticationError && error.status === 401 &&
            error.code === 'invalid_api_key');
    const answer = await clientOf(guarded.root).embeddings.create({ model: kModel, input: 'a' });
    assertVectors(embeddingsOf(answer), embedByCommand(['a']));
  } finally {
    await guarded.stop();
  }
});

test('a full queue is a RateLimitError, and retried until there is room', async () => {
  const small = await Server.start('--max-queue', '2', '--batch-window-ms', '2000');
  try {
    const both = { model: kModel, input: ['a', 'b'] };
    const first = clientOf(small.root).embeddings.create(both);
    let answered = false;
    first.finally(() => { answered = true; }).catch(() => {});  // awaited below
    while (await small.metric('espalier_queue_tickets') < 2) {
      assert.ok(!answered, 'the first request was answered before it was seen to wait');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await assert.rejects(clientOf(small.root).embeddings.create(both),
        (error) => error instanceof OpenAI.RateLimitError && error.type === 'rate_limit_error');
    const patient = clientOf(small.root, { maxRetries: 20 }).embeddings.create(both);
    const expected = embedByCommand(both.input);
    assertVectors(embeddingsOf(await first), expected);
    assertVectors(embeddingsOf(await patient), expected);
  } finally {
    await small.stop();
  }
});
