// Compares decoded texts, and where in a text each token comes from, with Hugging Face's own tokenizer.
//
//   node offsets_parity.mjs --modules DIR --source DIR --work DIR [--tokenizers NAME,…] -- offset_lines {tokenizer}
//
// Offsets must be equal where NFC leaves the text as it is. Where it composes characters, theirs are
// those of the first character alone and ours have its accents: then ours must contain theirs, in the
// kinds of text that people write.
import { compareEach, readArguments, runCommand } from './comparison.mjs';

const kShownDifferences = 5;
const kComposedKinds = ['languages', 'source code'];
const options = readArguments();

/// For each byte of `text` as UTF-8, and its end, the code points before it.
function codePointsBefore(text) {
  const before = [0];
  let count = 0;
  for (const character of text) {
    ++count;
    for (let i = Buffer.byteLength(character); i > 0; --i) before.push(count);
  }
  return before;
}

/// What is wrong with the answer, or nothing.
function offsetFault({ text, kind }, expected, actual) {
  const want = expected.getOffsets();
  const special = expected.getSpecialTokensMask();
  if (want.length !== actual.offsets.length) return 'the number of tokens';
  const same = text.normalize('NFC') === text;
  if (!same && !kComposedKinds.includes(kind)) return undefined;
  const before = codePointsBefore(text);
  for (let i = 0; i < want.length; ++i) {
    if (actual.special[i] !== (special[i] === 1)) return `[${i}] special`;
    if (actual.special[i]) continue;
    const [begin, end] = actual.offsets[i].map((byte) => before[byte]);
    const [wantBegin, wantEnd] = want[i];
    const fits = same ? begin === wantBegin && end === wantEnd : begin <= wantBegin && wantEnd <= end;
    if (!fits) return `[${i}] offsets ${begin}..${end}, expected ${wantBegin}..${wantEnd}`;
  }
  return undefined;
}

/// Lists of ids as no text has them, some of them without an entry.
function strangeIds(idCount) {
  let state = 1;
  const below = (n) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0, (state >>> 8) % n);
  return Array.from({ length: 3000 }, () => Array.from({ length: 1 + below(12) }, () =>
    (below(30) === 0 ? idCount + below(1000) : below(4) === 0 ? idCount - 1 - below(30) : below(idCount))));
}

async function compare({ name, file, reference, cases }) {
  let differences = 0;
  const report = (what, input) => {
    if (++differences <= kShownDifferences) console.error(`${name}, ${what}\n  ${JSON.stringify(input).slice(0, 300)}`);
  };
  const encoded = await reference.encodeBatch(cases.map(({ text }) => text), { addSpecialTokens: true });
  const ours = runCommand(options.command, file, cases.map(({ text }) => ({ text })));
  let unchanged = 0;
  cases.forEach((one, i) => {
    const fault = offsetFault(one, encoded[i], ours[i]);
    if (fault) report(`${one.kind}: ${fault}`, one.text);
    unchanged += one.text.normalize('NFC') === one.text ? 1 : 0;
  });

  const ids = [...encoded.map((encoding) => encoding.getIds()).filter((list) => list.length > 0),
    ...strangeIds(Math.max(...encoded.flatMap((encoding) => Math.max(0, ...encoding.getIds()))) + 1)];
  const texts = runCommand(options.command, file, ids.map((list) => ({ ids: list })));
  for (const [k, skipSpecialTokens] of [false, true].entries()) {
    const expected = await reference.decodeBatch(ids, skipSpecialTokens);
    expected.forEach((text, i) => {
      if (text === texts[i].texts[k]) return;
      report(`decoded, special tokens skipped ${skipSpecialTokens}: ${JSON.stringify(texts[i].texts[k]).slice(0, 200)}, ` +
        `expected ${JSON.stringify(text).slice(0, 200)}`, ids[i]);
    });
  }
  console.log(`${name}: offsets of ${cases.length} strings (${unchanged} are NFC), ${2 * ids.length} decoded texts, ` +
    `${differences} differ`);
  return differences;
}

const differences = await compareEach(options, compare);
if (differences > 0) {
  console.error(`${differences} offsets or texts differ from Hugging Face's tokenizers`);
  process.exitCode = 1;
}
