// llama.cpp's embeddings of a GGUF file, through node-llama-cpp, as a peer that `run.py` times.
//   node llama_cpp.mjs MODEL.gguf THREADS CONTEXT_TOKENS
// Reads one JSON object a line, {"ids": [[…], …]}, and answers each with {"seconds", "embeddings"}: normalised vectors,
// and the time that computing them took, one input after the other. The first line that it writes says that it is
// loaded: {"about": …}. An input must end with the model's end token; node-llama-cpp would add it otherwise.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { getLlama } from "node-llama-cpp";

const [modelPath, threads, contextTokens] = process.argv.slice(2);

function write(answer) {
  process.stdout.write(JSON.stringify(answer) + "\n");
}

function normalised(vector) {
  const length = Math.hypot(...vector);
  return vector.map((x) => x / length);
}

async function embed(context, inputs) {
  const vectors = [];
  const start = process.hrtime.bigint();
  for (const ids of inputs) vectors.push((await context.getEmbeddingFor([...ids])).vector);
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  return { seconds, embeddings: vectors.map(normalised) };
}

function packageVersion() {
  const file = new URL("node_modules/node-llama-cpp/package.json", import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")).version;
}

const llama = await getLlama({ build: "never", gpu: false, maxThreads: +threads, logLevel: "error" });
// Without mmap llama.cpp may repack the weights for the CPU's matrix instructions.
const model = await llama.loadModel({ modelPath, useMmap: false });
const size = +contextTokens;
const context = await model.createEmbeddingContext({ contextSize: size, batchSize: size, threads: +threads });
const about = `llama.cpp (node-llama-cpp ${packageVersion()}), one input at a time`;
write({ about, kernels: llama.systemInfo.trim() });
for await (const line of createInterface({ input: process.stdin })) {
  write(await embed(context, JSON.parse(line).ids));
}
process.exit(0);
