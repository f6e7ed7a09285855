// Compares token ids with Hugging Face's own tokenizer.
//
//   node parity.mjs --modules DIR --source DIR --work DIR [--tokenizers NAME,…] -- COMMAND [ARGUMENT…]
//
// COMMAND reads {"text": …} a line and writes {"ids": […]} a line; it is run a second time with
// --add-special-tokens appended. The other arguments: comparison.mjs.
import { compareEach, hasPostProcessor, readArguments, runCommand } from './comparison.mjs';

const kShownDifferences = 5;
const options = readArguments();

async function compare({ name, file, reference, cases }) {
  const strings = cases.map(({ text }) => text);
  const modes = hasPostProcessor(file) ? [false, true] : [false];
  let differences = 0;
  for (const addSpecialTokens of modes) {
    const expected = await reference.encodeBatch(strings, { addSpecialTokens });
    const actual = runCommand(options.command, file, strings.map((text) => ({ text })),
      addSpecialTokens ? ['--add-special-tokens'] : []);
    strings.forEach((text, i) => {
      const want = expected[i].getIds();
      const got = actual[i].ids;
      if (want.length === got.length && want.every((id, k) => id === got[k])) return;
      if (++differences > kShownDifferences) return;
      const at = want.findIndex((id, k) => id !== got[k]);
      console.error(`${name}, ${cases[i].kind}, special tokens ${addSpecialTokens}: ids differ from [${at}]\n` +
        `  text     ${JSON.stringify(text).slice(0, 300)}\n` +
        `  expected ${want.slice(Math.max(0, at - 3), at + 12)}\n` +
        `  got      ${got.slice(Math.max(0, at - 3), at + 12)}`);
    });
  }
  const encodings = modes.length * strings.length;
  console.log(`${name}: ${encodings - differences} of ${encodings} agree ` +
    `(${strings.length} strings, ${modes.length > 1 ? 'with and without' : 'without'} special tokens)`);
  return differences;
}

const differences = await compareEach(options, compare);
if (differences > 0) {
  console.error(`${differences} encodings differ from Hugging Face's tokenizers`);
  process.exitCode = 1;
}
