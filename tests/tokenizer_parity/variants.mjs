// Tokenizer files of our own, each for one feature that the published ones leave unused.
//
// Their vocabulary is the 256 bytes, and `add_prefix_space` puts a space before every pre-token that has
// none: so the ids show every boundary and every byte of the normalized text, where a real vocabulary
// hides them.

function byteLevelAlphabet() {
  const alphabet = [];
  let next = 0x100;
  for (let byte = 0; byte < 256; ++byte) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
    alphabet.push(String.fromCodePoint(printable ? byte : next++));
  }
  return alphabet;
}

const kQwen = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" +
  '|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const kLlama3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" +
  '| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const kO200k = [
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
  '\\p{N}{1,3}', ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*', '\\s*[\\r\\n]+', '\\s+(?!\\S)', '\\s+',
].join('|');
const kDeepSeek = '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+' +
  '| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

const regex = (text) => ({ Regex: text });
const split = (pattern, invert = false) => ({ type: 'Split', pattern, behavior: 'Isolated', invert });

function tokenizer({ splits = [], useRegex = false, prefixSpace = true, merges = [], entries = [],
  ignoreMerges = false, addedTokens = [], normalizer = { type: 'NFC' }, postProcessor = null }) {
  const vocab = Object.fromEntries([...byteLevelAlphabet(), ...entries].map((t, i) => [t, i]));
  const size = Object.keys(vocab).length;
  const byteLevel = { type: 'ByteLevel', add_prefix_space: prefixSpace, trim_offsets: true,
    use_regex: useRegex };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens.map((token, i) => ({ id: vocab[token.content] ?? size + i,
      single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...token })),
    normalizer,
    pre_tokenizer: splits.length
      ? { type: 'Sequence', pretokenizers: [...splits, byteLevel] } : byteLevel,
    post_processor: postProcessor,
    decoder: byteLevel,
    model: { type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null,
      end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: ignoreMerges,
      vocab, merges },
  };
}

const template = (single, ids) => ({
  type: 'TemplateProcessing',
  single: single.map((id) => (id === 'A' ? { Sequence: { id: 'A', type_id: 0 } }
    : { SpecialToken: { id, type_id: 0 } })),
  pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
  special_tokens: Object.fromEntries(Object.entries(ids).map(([id, list]) =>
    [id, { id, ids: list, tokens: list.map(String) }])),
});

/// { name: tokenizer.json as an object }
export function makeVariants() {
  return {
    'boundaries-qwen': tokenizer({ splits: [split(regex(kQwen))] }),
    'boundaries-llama3': tokenizer({ splits: [split(regex(kLlama3), true)], normalizer: null }),
    'boundaries-o200k': tokenizer({ splits: [split(regex(kO200k))], normalizer: { type: 'Sequence',
      normalizers: [{ type: 'NFC' }] } }),
    'boundaries-deepseek': tokenizer({ splits: [split(regex('\\p{N}{1,3}')), split(regex('[一-龥\\x{3040}-ゟ゠-ヿ]+')),
      split(regex(kDeepSeek))] }),
    'boundaries-classes': tokenizer({ splits: [
      split(regex('\\p{Lu}\\p{Ll}*|\\p{Lt}|\\p{Lm}+|\\p{Me}|\\p{Nd}+|\\p{Nl}|\\p{No}|\\p{Sm}|\\p{Sc}|\\p{Sk}|\\p{So}|\\p{Zs}|\\p{Zl}|\\p{Zp}')),
      split(regex('\\p{Pc}|\\p{Pd}|\\p{Ps}\\p{Po}?|\\p{Pe}|\\p{Pi}|\\p{Pf}|\\p{Po}++|\\P{L}\\d|\\D[\\S\\d]')),
      split(regex('(?<=\\s)\\S(?=.)|(?<!x)a{2,3}|.{40}')), split(regex('x*'))] }),
    'gpt2': tokenizer({ useRegex: true, prefixSpace: false, merges: [['Ġ', 'a'], ['b', 'c']],
      entries: ['Ġa', 'bc'] }),
    'gpt2-prefix-space': tokenizer({ useRegex: true, splits: [split({ String: 'a.b' }), split({ String: '! ' })] }),
    'ignore-merges': tokenizer({ splits: [split(regex(kQwen))], prefixSpace: false, ignoreMerges: true,
      merges: ['a b', 'ab c', 'Ġ a'], entries: ['ab', 'abc', 'Ġa', 'Ġword', 'word', 'abcab', 'ĠĠĠ', 'Ã©'] }),
    'added-tokens': tokenizer({ splits: [split(regex(kQwen))], addedTokens: [
      { content: '<|im_end|>' }, { content: '<x>' }, { content: '<x><y>' }, { content: 'you', special: false },
      { content: '[MASK]', lstrip: true }, { content: '<think>', rstrip: true, special: false },
      { content: '</think>', lstrip: true, rstrip: true }, { content: '\u3000', special: false },
      { content: 'Åbc', normalized: true, special: false }, { content: 'A\u030a', normalized: true },
      { content: 'mark', normalized: true, lstrip: true }, { content: '!', special: true },
    ] }),
    'templates': tokenizer({ splits: [split(regex(kQwen))], addedTokens: [{ content: '<|endoftext|>' }],
      postProcessor: { type: 'Sequence', processors: [{ type: 'ByteLevel', add_prefix_space: true,
        trim_offsets: false, use_regex: false }, template(['<s>', '<t>', 'A', '<e>', '<e>'], { '<s>': [3, 4], '<t>': [7], '<e>': [256] })] } }),
  };
}
