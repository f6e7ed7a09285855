"""The engines that `run.py` times: each starts, embeds token ids or a text, and measures one round."""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TORCH_HINT = "install PyTorch and numpy for that Python (Debian: apt install python3-torch)"
LLAMA_HINT = ("install Node 20 or later, then: "
              "npm --prefix bench/peers install --no-save --omit=optional --ignore-scripts")
ESPALIER_HINT = "name a binary that has the subcommand bench and this --dtype"
# Settings of the caller's that would make one engine slower than its users see it.
FOREIGN_SETTINGS = ("OPENBLAS_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "GGML_", "ESPALIER_")


class EngineError(Exception):
    """An engine is missing or gave up. The message says why."""


def clean_environment():
    return {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN_SETTINGS)}


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


class Worker:
    """A peer that stays loaded and answers lines of JSON, such as torch_qwen3.py."""

    def __init__(self, name, command, hint, minimum_cosine):
        self.name = name
        self.command = command
        self.hint = hint
        self.minimum_cosine = minimum_cosine
        self.about = {}
        self.process = None

    def start(self):
        self.errors = tempfile.TemporaryFile("w+")
        try:
            self.process = subprocess.Popen(self.command, env=clean_environment(), text=True, stderr=self.errors,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise EngineError(str(error)) from error
        self.about = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise EngineError(last_line(self.errors.read()))
        return json.loads(line)

    def embed_ids(self, inputs):
        try:
            self.process.stdin.write(json.dumps({"ids": inputs}) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended; read() says why
        return self.read()

    def answer_and_reference(self, reference, inputs):
        """This engine's vector of one input, and the reference's."""
        first = inputs[:1]
        return self.embed_ids(first)["embeddings"][0], reference.embed_ids(first)["embeddings"][0]

    def measure(self, inputs):
        return self.embed_ids(inputs)["seconds"]

    def running(self):
        return [self.process.pid] if self.process and self.process.poll() is None else []

    def close(self):
        if self.process:
            self.process.kill()
            self.process.communicate()


class Espalier:
    """Espalier's own `bench`, a process for each round. It draws its own token ids; their values cost no time."""
    hint = ESPALIER_HINT
    text = ("An espalier is a tree trained to grow flat against a wall. Its branches are pruned and tied to a frame, so "
            "that each leaf gets its share of the sun, and a small garden bears much fruit.")

    def __init__(self, binary, model, dtype, threads, minimum_cosine):
        self.name = f"Espalier {dtype}"
        self.minimum_cosine = minimum_cosine
        self.about = {}
        self.binary = binary
        self.common = ["--model", str(model)]
        self.how = ["--dtype", dtype, "--threads", str(threads)]

    def call(self, command, *options, line=None):
        words = [self.binary, command, *self.common, *options]
        try:
            done = subprocess.run(words, input=line, env=clean_environment(), text=True, capture_output=True,
                                  check=False)
        except OSError as error:
            raise EngineError(str(error)) from error
        if done.returncode != 0:
            raise EngineError(f"`espalier {command}`: {last_line(done.stderr)}")
        return json.loads(done.stdout)

    def start(self):
        """Nothing stays loaded, but what is missing shows here."""
        self.about = {"about": "prefix trie, all inputs in one batch"}
        self.measure([[0]])

    def answer_and_reference(self, reference, _inputs):
        line = json.dumps({"text": self.text}) + "\n"
        ids = self.call("tokenize", "--add-special-tokens", line=line)["ids"]
        ours = self.call("embed", *self.how, line=line)["embedding"]
        return ours, reference.embed_ids([ids])["embeddings"][0]

    def measure(self, inputs):
        sizes = ["--batch", str(len(inputs)), "--prefix", "0", "--suffix", str(len(inputs[0]))]
        report = self.call("bench", *sizes, "--dedup", "trie", *self.how, "--repeat", "1")
        (run,) = report["runs"]
        self.about["last_run"] = run
        return run["seconds"]["median"]

    def running(self):
        return []

    def close(self):
        pass


def all_engines(arguments, context_tokens):
    """Every engine, started or not, in the order of a round. PyTorch f32 comes first: it is the reference."""
    model, threads = arguments.model, str(arguments.threads)
    for dtype, minimum in (("f32", 0.9999), ("bf16", 0.999)):
        options = [str(model), dtype, threads, str(arguments.torch_batch)]
        command = [arguments.python, str(HERE / "torch_qwen3.py"), *options]
        yield Worker(f"PyTorch {dtype}", command, TORCH_HINT, minimum)
    for kind, minimum in (("Q8_0", 0.99), ("BF16", 0.999)):
        file = model / f"model-{kind.lower()}.gguf"
        command = [arguments.node, str(HERE / "llama_cpp.mjs"), str(file), threads, str(context_tokens)]
        yield Worker(f"llama.cpp {kind}", command, LLAMA_HINT, minimum)
    for dtype, minimum in (("f32", 0.999), ("bf16", 0.999), ("int8", 0.99)):
        yield Espalier(arguments.espalier, model, dtype, threads, minimum)


def start(engine):
    began = time.monotonic()
    engine.start()
    print(f"{engine.name}: ready in {time.monotonic() - began:.1f} s", file=sys.stderr)
