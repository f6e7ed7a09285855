// The strings that both tokenizers encode: every row of Unicode's own tests, real text, and random text
// made to hit the places where tokenizers differ. Deterministic.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const kUnicodeData = '/usr/share/unicode';

// A small generator of our own (mulberry32), so that every run and every Node makes the same strings.
function randomFrom(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
  const below = (n) => next() % n;
  const pick = (list) => list[below(list.length)];
  return { below, pick };
}

const isSurrogate = (c) => c >= 0xd800 && c <= 0xdfff;
const fromHex = (text) =>
  String.fromCodePoint(...text.trim().split(/\s+/).map((hex) => parseInt(hex, 16)));

function dataLines(text) {
  return text.split('\n').map((line) => line.replace(/#.*/, '').trim())
    .filter((line) => line && !line.startsWith('@'));
}

function normalizationTest() {
  const file = path.join(kUnicodeData, 'NormalizationTest.txt');
  const text = fs.existsSync(file)
    ? fs.readFileSync(file, 'utf8')
    : execFileSync('bzip2', ['-dc', `${file}.bz2`], { encoding: 'utf8', maxBuffer: 1 << 26 });
  return dataLines(text).flatMap((line) => {
    const columns = line.split(';').slice(0, 5).map(fromHex);
    return [columns[0], `a${columns.join('')}b ${columns.join(' ')}`];
  });
}

function emojiTest() {
  const text = fs.readFileSync(path.join(kUnicodeData, 'emoji/emoji-test.txt'), 'utf8');
  return dataLines(text).flatMap((line) => {
    const emoji = fromHex(line.split(';')[0]);
    return [emoji, `so ${emoji}${emoji} it's${emoji}\n`];
  });
}

// Each code point in places that show its category: before and behind letters, digits, spaces, signs.
function everyCodePoint() {
  const codePoints = [];
  for (let c = 0; c < 0x20000; ++c) if (!isSurrogate(c)) codePoints.push(c);
  for (let c = 0x20000; c < 0x40000; c += 0x11) codePoints.push(c);
  for (let c = 0xe0000; c < 0xe0200; ++c) codePoints.push(c);
  for (let c = 0xf0000; c < 0x110000; c += 0x1fff) codePoints.push(c);
  const strings = [];
  for (let i = 0; i < codePoints.length; i += 16) {
    strings.push(codePoints.slice(i, i + 16).map((codePoint) => {
      const c = String.fromCodePoint(codePoint);
      return `a${c}b1${c}2 ${c}!${c}${c}\n${c} `;
    }).join(''));
  }
  return strings;
}

function sourceCode(sourceDir) {
  const strings = [];
  for (const folder of ['text', 'engine', 'server', 'tests/tokenizer_parity',
    'models/espalier-mini/training']) {
    const where = path.join(sourceDir, folder);
    if (!fs.existsSync(where)) continue;
    for (const name of fs.readdirSync(where).sort()) {
      if (!/\.(h|cpp|py|mjs|txt)$/.test(name)) continue;
      const text = fs.readFileSync(path.join(where, name), 'utf8');
      strings.push(text, ...text.split(/(?<=\n)/).slice(0, 60));
      strings.push(text.replaceAll('  ', '\t').replaceAll('\n', '\r\n').slice(0, 4000));
    }
  }
  return strings;
}

export const kLanguages = [
  "The quick brown fox jumps over the lazy dog; it's 10:45, we'll see — don't you think they'd've gone?",
  'Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Straße, Maß, 1.234,56 €!',
  'Voix ambiguë d’un cœur qui, au zéphyr, préfère les jattes de kiwis. L’été, c’est déjà fini ?',
  '¿Dónde está la biblioteca? El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío.',
  'Съешь же ещё этих мягких французских булок, да выпей чаю. Ёлка — й, и\u0306, №5.',
  '我能吞下玻璃而不伤身体。2024年12月31日，北京的天气很好！“引号”与《书名号》。',
  'いろはにほへと ちりぬるを。カタカナ、ﾊﾝｶｸ、が、か\u3099、東京タワー３３３メートル。',
  '키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. \u1112\u1161\u11ab\u1100\u1173\u11af',
  'نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق، ١٢٣٤٥؟',
  'ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार भगवान श्रीराम। १२३',
  'เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน ๑๒๓',
  'דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם',
  'Tiếng Việt: Do bạch kim rất quý, sẽ để lắp vô xương. Tie\u0302\u0301ng Vie\u0323\u0302t',
  'Pijamalı hasta yağız şoföre çabucak güvendi. İSTANBUL ısırgan I\u0307',
  'Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ὀδυσσεύς, ᾧ, α\u0345\u0301',
  'ሰማይ አይታረስ ንጉሥ አይከሰስ።',
];

function languages(random) {
  const strings = [...kLanguages];
  for (const text of kLanguages) {
    strings.push(text.normalize('NFD'), text.normalize('NFKD'), text.toUpperCase());
    const characters = [...text];
    for (let i = 0; i < 30; ++i) {
      const begin = random.below(characters.length);
      strings.push(characters.slice(begin, begin + 1 + random.below(20)).join(''));
    }
  }
  return strings;
}

function randomStrings(random, count, maxLength, makeCharacter) {
  return Array.from({ length: count }, () =>
    Array.from({ length: 1 + random.below(maxLength) }, makeCharacter).join(''));
}

function randomCodePoints(random) {
  const ranges = [[0, 0x7f], [0x80, 0x24f], [0x250, 0x7ff], [0x800, 0xffff], [0x10000, 0x1ffff],
    [0x20000, 0x10ffff]];
  return randomStrings(random, 1500, 40, () => {
    const [first, last] = random.pick(ranges);
    const c = first + random.below(last - first + 1);
    return String.fromCodePoint(isSurrogate(c) ? c - 0xd800 + 0x4e00 : c);
  });
}

// Composition, reordering and what stops them: marks of many classes, jamo, exclusions, and marks that
// are younger than Unicode 9.0.
function composing(random) {
  const ranges = [[0x61, 0x7a], [0xc0, 0x17f], [0x300, 0x36f], [0x591, 0x5c7], [0x64b, 0x65f],
    [0x93c, 0x94d], [0x958, 0x95f], [0xb3c, 0xb57], [0xf71, 0xf84], [0x1100, 0x1112],
    [0x1161, 0x1175], [0x11a8, 0x11c2], [0xac00, 0xac40], [0x1ab0, 0x1ace], [0x1dc0, 0x1dff],
    [0x1e00, 0x1eff], [0x1f00, 0x1fff], [0x20d0, 0x20f0], [0x2de0, 0x2dff], [0x3099, 0x309a],
    [0x304b, 0x3062], [0xa8e0, 0xa8f1], [0xfb1d, 0xfb4e], [0x10d24, 0x10d27], [0x10eab, 0x10eac],
    [0x10f46, 0x10f50], [0x11099, 0x110ba], [0x11930, 0x11938], [0x1d15e, 0x1d172],
    [0x1e000, 0x1e02a], [0x1e130, 0x1e136], [0x1e944, 0x1e94a], [0x2f800, 0x2fa1d]];
  const character = () => {
    const [first, last] = random.pick(ranges);
    return String.fromCodePoint(first + random.below(last - first + 1));
  };
  const mark = () => String.fromCodePoint(0x300 + random.below(0x70));
  return [...randomStrings(random, 3000, 12, character),
    ...randomStrings(random, 40, 300, () => (random.below(20) ? mark() : character()))];
}

function whiteSpace(random) {
  const pieces = [' ', ' ', ' ', '  ', '\t', '\n', '\r', '\r\n', '\v', '\f', '\x1c', '\x1f', '\x85',
    '\xa0', '\u1680', '\u180e', '\u2000', '\u200a', '\u200b', '\u200d', '\u2028', '\u2029', '\u202f',
    '\u205f', '\u2060', '\u3000', '\ufeff', 'a', 'word', '1', '.', "'s", "'", '\u0301', '\0'];
  return randomStrings(random, 2000, 14, () => random.pick(pieces));
}

function contractions(random) {
  const pieces = ["'", '’', "'s", "'S", "'\u017f", "'t", "'RE", "'vE", "'m", "'LL", "'Ll", "'d", 'I',
    'K', '\u212a', 'x', '1', '12345', ' ', '\n', '!', '!!', '?\n', '...', '½', 'Ⅷ', '٣', '\u0301',
    'ß', 'ﬆ', 'İ'];
  return randomStrings(random, 1000, 10, () => random.pick(pieces));
}

function lookAlikes(random) {
  const pieces = ['<|im_start|>', '<|im_end|>', '<|endoftext|>', '<think>', '</think>', '<tool_call>',
    '<|fim_prefix|>', '<|', '|>', '<', '>', '|', 'im_start', '<|im_', 'end|>', '<|im_end|', '＜|im_end|＞',
    '<|IM_END|>', '<think', '/think>', ' ', '\n', 'a', '<<|im_end|>>', '[MASK]', 'Åbc', 'A\u030abc',
    'A\u030a', 'mark', 'market', '\u0301', '<x>', '<x><y>', '<y>', '\u3000', 'you', '{query}'];
  return randomStrings(random, 2000, 8, () => random.pick(pieces));
}

// What SentencePiece-like tokenizers treat apart: spaces at the ends and in a row, the mark itself, bytes,
// special tokens of Llama and Mistral, characters that few vocabularies have.
function marksAndBytes(random) {
  const pieces = [' ', ' ', '  ', '▁', '▁', '▁▁', ' ▁', '_', '\n', '\n\n', '\t', 'a', 'ab', 'abc', 'the', ' the', 'The', 'x',
    '<0x0A>', '<0x', '0A>', '<unk>', '<s>', '</s>', ' </s>', '</s> ', '<s> ', '[INST]', '<|begin_of_text|>', '12', '3',
    '.', '漢', '字', '的', '\u0301', 'é', 'e\u0301', 'ß', '😀', '🧦', '\u{1fae8}', '\u{10ffff}', '\ue000', '\0', '\x7f', 'ａ'];
  return ['', ' ', '  ', '▁', '▁▁', ' a', 'a ', '  a  ', '▁a', 'a▁', '\n', ' \n', '\t', '</s>', '<s>a', 'a</s>b', ' </s> ',
    ...randomStrings(random, 3000, 9, () => random.pick(pieces))];
}

function longRuns() {
  const runs = ['a', ' ', '\n', '\t', '😀', '1', '!', '한', '\u0301', '\u0316\u0301', 'ab', ' a', '\r\n',
    '漢', '<', "'", '▁', '▁a', 'a▁b ', '\u1161', '\u0f73\u0f71'];
  return runs.flatMap((unit) => [100, 5000].map((times) => unit.repeat(times)))
    .concat(' '.repeat(3000) + 'x', '\n '.repeat(2000) + 'x', '');
}

/// [{ kind, strings }]
export function makeStrings(sourceDir) {
  const random = randomFrom(20240229);
  return [
    { kind: 'NormalizationTest', strings: normalizationTest() },
    { kind: 'emoji-test', strings: emojiTest() },
    { kind: 'every code point', strings: everyCodePoint() },
    { kind: 'source code', strings: sourceCode(sourceDir) },
    { kind: 'languages', strings: languages(random) },
    { kind: 'random code points', strings: randomCodePoints(random) },
    { kind: 'composing characters', strings: composing(random) },
    { kind: 'white space', strings: whiteSpace(random) },
    { kind: 'contractions', strings: contractions(random) },
    { kind: 'special-token look-alikes', strings: lookAlikes(random) },
    { kind: 'marks and bytes', strings: marksAndBytes(random) },
    { kind: 'long runs', strings: longRuns() },
  ];
}
