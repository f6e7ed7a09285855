// Runs the espalier binary for the tests of clients: a server of its own port, and what the command line computes for
// the same texts.
//
// ESPALIER_BINARY is the binary, ESPALIER_MINI_MODEL the bundled model's folder; ESPALIER_TEST_SLOWDOWN multiplies time
// limits, as in tests/http.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { fileURLToPath } from 'node:url';

export const kModel = 'espalier-mini';
export const kEndToken = 8187;  // <|endoftext|> of espalier-mini
export const kHiddenSize = 256;
export const kSourceFolder = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

const kSlowdown = Number(process.env.ESPALIER_TEST_SLOWDOWN ?? 1);
export const kPatienceMs = 60_000 * kSlowdown;

const binary = process.env.ESPALIER_BINARY;
const model = process.env.ESPALIER_MINI_MODEL;

/** This process's environment without options that would change what is tested; f32, which every CPU computes alike. */
export function environment() {
  const kept = Object.entries(process.env)
      .filter(([name]) => !name.startsWith('ESPALIER_') || name === 'ESPALIER_ISA');
  const suppressions = path.join(kSourceFolder, 'tests/http/tsan_suppressions.txt');
  return { ...Object.fromEntries(kept), ESPALIER_DTYPE: 'f32',
    TSAN_OPTIONS: `${process.env.TSAN_OPTIONS ?? ''}:suppressions='${suppressions}'` };
}

/** `espalier serve` on a free port. */
export class Server {
  /** Resolves when it is ready; `root` is its address without a path. */
  static async start(...options) {
    const server = new Server();
    server.log = '';
    server.process = spawn(binary, ['serve', '--port', '0', '--model', model, ...options],
        { env: environment(), stdio: ['ignore', 'ignore', 'pipe'] });
    server.ended = once(server.process, 'exit');
    server.root = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the server did not get ready:\n${server.log}`)), kPatienceMs);
      server.ended.then(([code]) => reject(new Error(`the server ended with ${code}:\n${server.log}`)));
      readline.createInterface({ input: server.process.stderr }).on('line', (line) => {
        server.log += `${line}\n`;
        const ready = /is ready at (http:\S*:\d+)\s*$/.exec(line);
        if (!ready) return;
        clearTimeout(late);
        resolve(ready[1]);
      });
    }).catch((error) => {
      server.process.kill('SIGKILL');
      throw error;
    });
    return server;
  }

  /** A server that serves only who sends `key`. */
  static async startWithKey(key) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'espalier-clients-'));
    try {
      const file = path.join(folder, 'keys');
      fs.writeFileSync(file, `shop ${key}\n`);
      return await Server.start('--api-key-file', file);  // which is read once, at the start
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  }

  /** Asks it to end; fails unless it does so with exit code 0. */
  async stop() {
    this.process.kill('SIGTERM');
    const late = setTimeout(() => this.process.kill('SIGKILL'), kPatienceMs);
    const [code, signal] = await this.ended;
    clearTimeout(late);
    assert.equal(code, 0, `exit code ${code}, signal ${signal}:\n${this.log}`);
  }

  /** A metric's value, as /metrics names it. */
  async metric(name) {
    const text = await (await fetch(`${this.root}/metrics`)).text();
    const line = text.split('\n').find((candidate) => candidate.startsWith(`${name} `));
    assert.ok(line, `no metric ${name}`);
    return Number(line.slice(name.length + 1));
  }
}

/** Runs a command of espalier that ends by itself, JSON lines in and out. */
function run(command, options, records) {
  const done = spawnSync(binary, [command, '--model', model, ...options], { env: environment(), encoding: 'utf8',
    timeout: kPatienceMs, input: records.map((record) => JSON.stringify(record) + '\n').join('') });
  assert.equal(done.status, 0, `espalier ${command}: ${done.stderr}`);
  return done.stdout.trimEnd().split('\n').map((line) => JSON.parse(line));
}

const asRecords = (texts) => texts.map((text) => ({ text }));

/** The vectors of `espalier embed`, in the order of the texts. */
export function embedByCommand(texts, ...options) {
  return run('embed', options, asRecords(texts)).map((line) => line.embedding);
}

/** The ranking of `espalier rerank`, best first: {index, score}. */
export function rerankByCommand(query, documents, ...options) {
  return run('rerank', ['--query', query, ...options], asRecords(documents));
}

/** Token ids as `espalier tokenize` gives them, without the end token. */
export function tokenizeByCommand(texts) {
  return run('tokenize', [], asRecords(texts)).map((line) => line.ids);
}

/** Fails unless the vectors are equal to 1e-6 in every component. */
export function assertVectors(actual, expected) {
  assert.equal(actual.length, expected.length, 'number of vectors');
  expected.forEach((vector, row) => {
    assert.equal(actual[row].length, vector.length, `dimensions of vector ${row}`);
    vector.forEach((component, column) => {
      assert.ok(Math.abs(actual[row][column] - component) <= 1e-6,
          `vector ${row}, dimension ${column}: ${actual[row][column]}, not ${component}`);
    });
  });
}

/** Fails unless documents come in this order with these scores, to 1e-6. Both: {index, score}[]. */
export function assertRanking(actual, expected) {
  assert.deepEqual(actual.map(({ index }) => index), expected.map(({ index }) => index));
  assertVectors([actual.map(({ score }) => score)], [expected.map(({ score }) => score)]);
}
