// docs/clients.md: every block of sh, js and python in it runs against a real server, and prints what the block of
// text after it shows. There "…" stands for anything, and numbers with a decimal point are compared to two decimals.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Server, environment, kPatienceMs, kSourceFolder } from './espalier.mjs';

const kDocument = path.join(kSourceFolder, 'docs/clients.md');
const kWorkFolder = path.join(process.env.ESPALIER_CLIENT_MODULES, 'document');  // has node_modules above it
const kRunners = {
  sh: ['.sh', 'bash'],
  js: ['.mjs', process.execPath],
  python: ['.py', 'python3'],
};

/** {heading, language, code, shown}: shown is null where no text follows. */
function examples(markdown) {
  const found = [];
  let heading = '';
  for (const match of markdown.matchAll(/^## (.*)$|^```(\w+)\n([^]*?)^```$/gm)) {
    const [, title, language, code] = match;
    if (title) heading = title;
    else if (language === 'text') found.at(-1).shown = code;
    else found.push({ heading, language, code, shown: null });
  }
  return found;
}

function assertPrints(printed, shown) {
  const numbers = [];
  const pattern = shown.trim().split(/(…|-?\d+\.\d+)/).map((part, i) => {
    if (i % 2 === 0) return part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
    if (part === '…') return '[^]*?';
    numbers.push(Number(part));
    return '(-?\\d+\\.\\d+(?:e-?\\d+)?)';
  }).join('');
  const match = new RegExp(`^${pattern}$`).exec(printed.trim());
  assert.ok(match, `printed:\n${printed}\nthe document shows:\n${shown}`);
  match.slice(1).forEach((real, i) => {
    assert.ok(Math.abs(Number(real) - numbers[i]) <= 0.005, `${real}, not ${numbers[i]}, in:\n${printed}`);
  });
}

async function run(language, code, name) {
  const [extension, program] = kRunners[language];
  const file = path.join(kWorkFolder, name + extension);
  fs.writeFileSync(file, code);
  const child = spawn(program, [file], { cwd: kSourceFolder, env: environment(), stdio: ['ignore', 'pipe', 'pipe'],
    timeout: kPatienceMs });
  let printed = '';
  let complaints = '';
  child.stdout.on('data', (part) => { printed += part; });
  child.stderr.on('data', (part) => { complaints += part; });
  const status = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  assert.equal(status, 0, `${name} ended with ${status}:\n${complaints}${printed}`);
  return printed;
}

let server;

before(async () => {
  fs.mkdirSync(kWorkFolder, { recursive: true });
  server = await Server.start();
});
after(() => server.stop());

const found = examples(fs.readFileSync(kDocument, 'utf8'));

test('the document has an example in each language', () => {
  assert.deepEqual(new Set(found.map((example) => example.language)), new Set(Object.keys(kRunners)));
});

found.forEach(({ heading, language, code, shown }, i) => {
  test(`${heading} (${language})`, async () => {
    assert.ok(code.includes('http://localhost:8080'), 'it names the server');
    assert.ok(shown !== null, 'a block of text shows what it prints');
    const printed = await run(language, code.replaceAll('http://localhost:8080', server.root), `example${i + 1}`);
    assertPrints(printed, shown);
  });
});
