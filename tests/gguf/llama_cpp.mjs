// llama.cpp's tokens and embeddings of GGUF files, through node-llama-cpp, for test_llama_cpp.py.
//   node llama_cpp.mjs MODULES
// MODULES: a folder that has node_modules. Reads one JSON object a line, {"model": path, "texts": […], "ids": [[…], …]},
// and answers each with {"tokens": [[…], …], "embeddings": [[…], …]}: the tokens of the texts without what is put around
// them, and the embeddings of the id lists, normalised.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.argv[2] + "/"));
const { getLlama } = await import(pathToFileURL(require.resolve("node-llama-cpp")));
const CONTEXT_TOKENS = 512;

const llama = await getLlama({ build: "never", gpu: false, maxThreads: 2, logLevel: "error" });

function normalised(vector) {
  const length = Math.hypot(...vector);
  return vector.map((x) => x / length);
}

async function answer({ model: modelPath, texts, ids }) {
  const model = await llama.loadModel({ modelPath });
  const tokens = texts.map((text) => [...model.tokenize(text, false)]);
  const options = { contextSize: CONTEXT_TOKENS, batchSize: CONTEXT_TOKENS, threads: 2 };
  const context = await model.createEmbeddingContext(options);
  const embeddings = [];
  for (const list of ids) embeddings.push(normalised((await context.getEmbeddingFor(list)).vector));
  await context.dispose();
  await model.dispose();
  return { tokens, embeddings };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(JSON.parse(line))) + "\n");
}
process.exit(0);
