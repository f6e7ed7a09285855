// Tokenizer files of our own, each for one feature that the published ones leave unused.
//
// The vocabulary of byte-level ones is the 256 bytes, and `add_prefix_space` puts a space before every pre-token that has
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
const split = (pattern, invert = false, behavior = 'Isolated') => ({ type: 'Split', pattern, behavior, invert });

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

const byteEntry = (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
const kAllBytes = Array.from({ length: 256 }, (_, byte) => byteEntry(byte));
const kLlamaMerges = ['▁ t', '▁t h', '▁th e', 't h', 'th e', '▁ ▁', '▁▁ ▁▁', '▁ a', 'a b', 'ab c', 'b c', '▁ ab', '漢 字', '< /', 's >'];
const kLlamaNormalizer = { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' },
  { type: 'Replace', pattern: { String: ' ' }, content: '▁' }] };
const kLlamaDecoder = { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' },
  { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] };
const metaspace = (fields) => ({ type: 'Metaspace', replacement: '▁', ...fields });

/// A vocabulary of characters: those of ASCII that print and a few others, and what the merges make.
function sentencePiece({ merges = kLlamaMerges, bytes = kAllBytes, unk = '<unk>', fuseUnk = true, ignoreMerges = false,
  entries = [], normalizer = null, preTokenizer = null, decoder = null, addedTokens = ['<s>', '</s>'], postProcessor = null }) {
  const characters = [...Array.from({ length: 94 }, (_, i) => String.fromCodePoint(33 + i)), ...'▁éß漢字😀'];
  const vocab = {};
  for (const entry of ['<unk>', '<s>', '</s>', ...bytes, ...characters,
    ...merges.map((merge) => merge.split(' ').join('')), ...entries]) {
    vocab[entry] ??= Object.keys(vocab).length;
  }
  let next = Object.keys(vocab).length;
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens.map((token) => (typeof token === 'string' ? { content: token } : token))
      .map((token) => ({ id: vocab[token.content] ?? next++, single_word: false, lstrip: false, rstrip: false,
        normalized: false, special: true, ...token })),
    normalizer,
    pre_tokenizer: preTokenizer,
    post_processor: postProcessor,
    decoder,
    model: { type: 'BPE', dropout: null, unk_token: unk, continuing_subword_prefix: null, end_of_word_suffix: null,
      fuse_unk: fuseUnk, byte_fallback: bytes.length > 0, ignore_merges: ignoreMerges, vocab, merges },
  };
}

const kNormalizedTokens = [{ content: '<s>', normalized: true }, { content: '</s>', normalized: true },
  { content: 'the', normalized: true, special: false }, { content: '[INST]', normalized: false, lstrip: true, rstrip: true },
  { content: '▁▁', normalized: true, special: false }];

function sentencePieceVariants() {
  const partial = [0x0a, 0x20, 0xc3, 0xa9, 0xe7, 0x9a, 0x84, 0xcc, 0x81].map(byteEntry);
  return {
    'llama-legacy': sentencePiece({ normalizer: kLlamaNormalizer, decoder: kLlamaDecoder, addedTokens: kNormalizedTokens,
      postProcessor: template(['<s>', 'A'], { '<s>': [1] }) }),
    'metaspace': sentencePiece({ preTokenizer: metaspace({}), decoder: metaspace({}), addedTokens: kNormalizedTokens }),
    'metaspace-first': sentencePiece({ preTokenizer: metaspace({ prepend_scheme: 'first', split: false }),
      decoder: kLlamaDecoder, addedTokens: ['<s>', '</s>', { content: '[INST]', lstrip: true }] }),
    'metaspace-first-split': sentencePiece({ preTokenizer: metaspace({ prepend_scheme: 'first', split: true }),
      normalizer: { type: 'NFC' }, decoder: metaspace({ prepend_scheme: 'first' }), bytes: [] }),
    'metaspace-never': sentencePiece({ preTokenizer: metaspace({ add_prefix_space: false, prepend_scheme: 'never', replacement: '_' }),
      decoder: metaspace({ prepend_scheme: 'never', replacement: '_' }), merges: ['_ a', 'a b', '_ _'] }),
    'metaspace-whole': sentencePiece({ preTokenizer: metaspace({ split: false }), merges: [...kLlamaMerges, 'c ▁', 'a ▁the'] }),
    'unknown-fused': sentencePiece({ bytes: [], normalizer: kLlamaNormalizer, decoder: kLlamaDecoder }),
    'unknown-single': sentencePiece({ bytes: [], fuseUnk: false, normalizer: kLlamaNormalizer, decoder: { type: 'Fuse' } }),
    'unknown-merged': sentencePiece({ bytes: [], fuseUnk: false, normalizer: kLlamaNormalizer,
      merges: [...kLlamaMerges, '<unk> <unk>', '<unk><unk> ▁', 'a <unk>'] }),
    'some-bytes': sentencePiece({ bytes: partial, normalizer: kLlamaNormalizer, decoder: kLlamaDecoder,
      merges: [...kLlamaMerges, '<0x0A> <0x0A>', '▁ <0x0A>', 'a ▁', '▁a ▁a'] }),
    'some-bytes-single': sentencePiece({ bytes: partial, fuseUnk: false, preTokenizer: metaspace({}),
      decoder: { type: 'Sequence', decoders: [{ type: 'ByteFallback' }, metaspace({}), { type: 'Strip', content: ' ', start: 2, stop: 0 }] } }),
    'characters-ignore-merges': sentencePiece({ ignoreMerges: true, normalizer: kLlamaNormalizer, merges: ['a b', '▁ a'],
      entries: ['▁the', '▁a▁b', '▁<0x0A>', 'abc'] }),
    'replace-several': sentencePiece({ normalizer: { type: 'Sequence', normalizers: [{ type: 'NFC' },
      { type: 'Replace', pattern: { String: ' ' }, content: '▁▁' }, { type: 'Replace', pattern: { String: 'é' }, content: 'ab' }] },
    decoder: { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁▁' }, content: '' }, { type: 'ByteFallback' }] } }),
    'gemma': sentencePiece({ normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
      preTokenizer: split({ String: ' ' }, false, 'MergedWithPrevious'), decoder: { type: 'Sequence', decoders: kLlamaDecoder.decoders.slice(0, 3) } }),
  };
}

const kSpaces = regex('\\s+|x*');
const kSplitBehaviors = ['Contiguous', 'MergedWithPrevious', 'MergedWithNext'].flatMap((behavior) => [false, true].map((invert) =>
  [`split-${behavior}${invert ? '-inverted' : ''}`, tokenizer({ splits: [split(regex('[.,!]|\\s|\\d'), invert, behavior),
    split(kSpaces, invert, behavior), split({ String: 'ab' }, invert, behavior), split(regex(kQwen), invert, behavior)] })]));

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
    ...Object.fromEntries(kSplitBehaviors),
    ...sentencePieceVariants(),
    'templates': tokenizer({ splits: [split(regex(kQwen))], addedTokens: [{ content: '<|endoftext|>' }],
      postProcessor: { type: 'Sequence', processors: [{ type: 'ByteLevel', add_prefix_space: true,
        trim_offsets: false, use_regex: false }, template(['<s>', '<t>', 'A', '<e>', '<e>'], { '<s>': [3, 4], '<t>': [7], '<e>': [256] })] } }),
  };
}
