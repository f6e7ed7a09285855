#!/usr/bin/env python3
"""GGUF files from end to end: tokens and embeddings against llama.cpp's of the same file (ESPALIER_GGUF_MODULES: a folder
with node-llama-cpp in its node_modules), against the safetensors that a file was made from, and what is refused."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

from espalier_server import MODEL, EspalierTest, json_lines, run_espalier, time_limit
from block_formats import BLOCK_FORMATS, dequantise
from gguf_writer import tensor_bytes, type_number, write_gguf
from random_models import (CONTEXT, HEAD_DIM, HEADS, HIDDEN, KV_HEADS, LAYERS, MLP, RandomModel, gguf_names,
                           sentencepiece_vocabulary, vocabulary_of_tokenizer_json)
from test_model_folders import safetensors

HERE = Path(__file__).resolve().parent
TOKENIZER = json.loads((Path(MODEL) / "tokenizer.json").read_text())
TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_K", "Q6_K", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q5_K", "Q3_K", "Q2_K")
TEXTS = [
    "Hello world, this is a test of 123 numbers.",
    "  two spaces  and\ttabs\nand lines\n\n  ",
    "The quick brown fox jumps over the lazy dog; it's 2026!",
    "naïve café — 中文字符 🙂",
    "def f(x):\n    return x**2  # a comment",
    "a",
    "Was der Bauer nicht kennt, das frisst er nicht. " * 12,
]


def lines_of(command, model, texts, *options):
    done = run_espalier(command, "--model", model, *options, stdin=json_lines({"text": text} for text in texts))
    if done.returncode != 0:
        raise AssertionError(f"espalier {command} --model {model}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def ids_of(model, texts, *options):
    return [line["ids"] for line in lines_of("tokenize", model, texts, *options)]


def embeddings_of(model, texts, *options):
    return np.array([line["embedding"] for line in lines_of("embed", model, texts, *options)])


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


class LlamaCpp:
    """llama_cpp.mjs."""

    def __init__(self):
        command = ["node", str(HERE / "llama_cpp.mjs"), os.environ["ESPALIER_GGUF_MODULES"]]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, model, texts, ids):
        self.process.stdin.write(json.dumps({"model": str(model), "texts": texts, "ids": ids}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["tokens"], np.array(answer["embeddings"])

    def close(self):
        self.process.stdin.close()
        self.process.wait(time_limit(30))
        self.process.stdout.close()


class GgufTest(EspalierTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.byte_level = vocabulary_of_tokenizer_json(TOKENIZER)
        cls.sentencepiece = sentencepiece_vocabulary(TOKENIZER)

    def write(self, name, architecture="qwen3", kind="F32", vocabulary=None, metadata=None, tensors=()):
        vocabulary = vocabulary or self.byte_level
        path = self.folder / f"{name}.gguf"
        RandomModel(architecture, vocabulary.size, seed=6).write(path, kind, vocabulary, metadata, tensors)
        return path


@unittest.skipUnless("ESPALIER_GGUF_MODULES" in os.environ, "node-llama-cpp is for x86-64 here")
class LlamaCppTest(GgufTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.llama_cpp = LlamaCpp()

    @classmethod
    def tearDownClass(cls):
        cls.llama_cpp.close()

    def assert_agrees(self, path, least_cosine=0.999, texts=TEXTS):
        tokens, expected = self.llama_cpp.ask(path, texts, ids_of(path, texts, "--add-special-tokens"))
        self.assertEqual(ids_of(path, texts), tokens, path)
        least = cosines(embeddings_of(path, texts), expected).min()
        print(f"{path.name}: least cosine to llama.cpp's {least:.7f}")
        self.assertGreater(least, least_cosine, path)

    def test_every_type_of_every_family(self):
        for architecture in ("qwen3", "qwen2", "llama"):
            vocabulary = self.sentencepiece if architecture == "llama" else self.byte_level
            for kind in TYPES if architecture == "qwen3" else TYPES[:6]:
                with self.subTest(architecture=architecture, kind=kind):
                    # llama.cpp rounds activations to 8 bits where weights are quantised; we do not.
                    least = 0.99999 if kind in ("F32", "F16") else 0.999
                    path = self.write(f"{architecture}-{kind}", architecture, kind, vocabulary)
                    self.assert_agrees(path, least)
                    path.unlink()

    def test_mixtures_and_a_head_of_its_own(self):
        head = np.zeros((self.byte_level.size, 256), np.float32)
        self.assert_agrees(self.write("untied", kind="Q4_K", tensors=[("output.weight", head, "Q6_K")]))

    def test_stretched_rotary_embedding(self):
        divisors = np.linspace(1, 8, HEAD_DIM // 2, dtype=np.float32)
        self.assert_agrees(self.write("divided", "llama", vocabulary=self.sentencepiece,
                                      tensors=[("rope_freqs.weight", divisors, "F32")]), 0.9999)
        for kind in ("linear", "yarn"):
            scaling = {"type": kind, "factor": 4.0, "original_context_length": 512}
            path = self.write(kind, metadata={f"qwen3.rope.scaling.{key}": value for key, value in scaling.items()})
            self.assert_agrees(path, 0.9999)

    def test_other_words(self):
        for pre in ("llama-bpe", "tekken", "gpt-2"):
            with self.subTest(pre=pre):
                vocabulary = vocabulary_of_tokenizer_json(TOKENIZER, pre=pre)
                self.assert_agrees(self.write(pre, "llama", vocabulary=vocabulary), 0.9999)

    def test_without_an_end_token_ids_are_kept(self):
        path = self.write("endless", metadata={"tokenizer.ggml.add_eos_token": False})
        self.assert_agrees(path, 0.9999)
        self.assertEqual(ids_of(path, TEXTS, "--add-special-tokens"), ids_of(path, TEXTS))

    def test_begin_and_end_tokens_and_no_space_before(self):
        vocabulary = sentencepiece_vocabulary(TOKENIZER, add_eos_token=True, add_space_prefix=False)
        path = self.write("end", "llama", vocabulary=vocabulary)
        self.assert_agrees(path, 0.9999)
        for ids in ids_of(path, TEXTS, "--add-special-tokens"):
            self.assertEqual((ids[0], ids[-1]), (1, 2))


class SafetensorsTest(GgufTest):
    """The bundled model, converted."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.texts = [*TEXTS, "<|im_start|>user<|im_end|> <think>", "A\u030angstro\u0308m \u1e9b\u0323"]
        cls.expected = embeddings_of(MODEL, cls.texts)
        cls.weights = cls.bundled_weights()

    @staticmethod
    def bundled_weights():
        data = (Path(MODEL) / "model.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        weights = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            bits = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
            weights[name] = bits.view(np.float32).reshape(entry["shape"])
        return weights

    def convert(self, path, kind):
        config = json.loads((Path(MODEL) / "config.json").read_text())
        metadata = {
            "general.architecture": "qwen3",
            "general.type": "model",
            "qwen3.block_count": config["num_hidden_layers"],
            "qwen3.context_length": config["max_position_embeddings"],
            "qwen3.embedding_length": config["hidden_size"],
            "qwen3.feed_forward_length": config["intermediate_size"],
            "qwen3.attention.head_count": config["num_attention_heads"],
            "qwen3.attention.head_count_kv": config["num_key_value_heads"],
            "qwen3.attention.key_length": config["head_dim"],
            "qwen3.attention.value_length": config["head_dim"],
            "qwen3.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
            "qwen3.rope.freq_base": float(config["rope_theta"]),
            "qwen3.pooling_type": 3,
        } | self.byte_level.metadata
        tensors = [(gguf_name, self.weights[name], kind if self.weights[name].ndim == 2 else "F32")
                   for name, gguf_name in gguf_names(self.weights)]
        write_gguf(path, metadata, tensors)
        return path

    def test_the_same_ids_and_embeddings(self):
        for kind, least in {"F32": 0.99999, "BF16": 0.99999, "Q8_0": 0.999, "Q6_K": 0.995, "Q4_K": 0.95}.items():
            with self.subTest(kind=kind):
                path = self.convert(self.folder / f"mini-{kind}.gguf", kind)
                for options in ((), ("--add-special-tokens",)):
                    self.assertEqual(ids_of(path, self.texts, *options), ids_of(MODEL, self.texts, *options))
                cosine = cosines(embeddings_of(path, self.texts), self.expected).min()
                print(f"espalier-mini as {kind}: least cosine {cosine:.7f}")
                self.assertGreater(cosine, least)

    def test_a_folder_with_one_file_and_the_servers_names(self):
        folder = self.folder / "only"
        folder.mkdir()
        path = self.convert(folder / "mini.Q8_0.gguf", "Q8_0")
        server = self.start(model=str(folder))
        models = server.get("/v1/models").json()["data"]
        self.assertEqual([model["id"] for model in models], ["mini.Q8_0"])
        by_server = server.embed(self.texts[:3])
        server.stop()
        np.testing.assert_allclose(by_server, embeddings_of(path, self.texts[:3]), atol=1e-5)
        self.convert(folder / "mini.F32.gguf", "F32")
        done = run_espalier("inspect", "--model", folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("several GGUF files: mini.F32.gguf, mini.Q8_0.gguf; name one of them", done.stderr)


class LoraTest(GgufTest):
    """Adapters of quantised files, against safetensors that numpy dequantised and added them to."""

    RANK, ALPHA = 4, 12.0

    def write_adapter(self, folder, modules, seed):
        """Returns what it adds, by tensor."""
        rng = np.random.default_rng(seed)
        tensors, updates = {}, {}
        for layer in range(LAYERS):
            for module, (outputs, inputs) in modules.items():
                name = f"layers.{layer}.{module}"
                a = rng.normal(0, inputs ** -0.5, (self.RANK, inputs)).astype(np.float32)
                b = rng.normal(0, 0.5, (outputs, self.RANK)).astype(np.float32)
                tensors |= {f"base_model.model.{name}.lora_A.weight": a, f"base_model.model.{name}.lora_B.weight": b}
                updates[name + ".weight"] = self.ALPHA / self.RANK * b.astype(float) @ a.astype(float)
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes(safetensors(tensors, "F32"))
        config = {"peft_type": "LORA", "r": self.RANK, "lora_alpha": self.ALPHA, "target_modules": ["q_proj"]}
        (folder / "adapter_config.json").write_text(json.dumps(config))
        return updates

    def write_merged(self, folder, architecture, kind, model, updates):
        """A folder in Hugging Face's layout with what the file's blocks hold, and the updates added."""
        weights = {}
        for name, values in model.weights.items():
            if values.ndim == 2 and kind in BLOCK_FORMATS:
                values = dequantise(kind, tensor_bytes(values, kind)).reshape(values.shape)
            weights[name] = (values + updates.get(name, 0)).astype(np.float32)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(safetensors(weights, "F32"))
        (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        (folder / "config.json").write_text(json.dumps({
            "model_type": architecture, "num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "intermediate_size": MLP,
            "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
            "vocab_size": self.byte_level.size, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5,
            "rope_theta": 1e5, "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "float32"}))

    def test_an_adapter_of_quantised_weights(self):
        modules = {"self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN), "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
                   "mlp.down_proj": (HIDDEN, MLP)}
        # Rows of queries and keys of llama files have an order of their own, which the adapter has not.
        for architecture, kind in (("qwen3", "Q8_0"), ("qwen3", "Q4_K"), ("llama", "Q8_0"), ("llama", "F16")):
            with self.subTest(architecture=architecture, kind=kind):
                name = f"lora-{architecture}-{kind}"
                path = self.folder / f"{name}.gguf"
                model = RandomModel(architecture, self.byte_level.size, seed=8)
                if kind == "F16":
                    model.weights = {part: values.astype(np.float16).astype(np.float32)
                                     for part, values in model.weights.items()}
                model.write(path, kind, self.byte_level)
                adapter, merged = self.folder / f"{name}-adapter", self.folder / f"{name}-merged"
                updates = self.write_adapter(adapter, modules, seed=9)
                self.write_merged(merged, architecture, kind, model, updates)
                expected = embeddings_of(merged, TEXTS)
                least = cosines(embeddings_of(path, TEXTS, "--lora", adapter), expected).min()
                self.assertGreater(least, 0.99999)
                self.assertLess(cosines(embeddings_of(path, TEXTS), expected).max(), 0.99)


class EndTokenTest(GgufTest):
    def warnings(self, name, metadata, *options):
        done = run_espalier("embed", "--model", self.write(name, metadata=metadata), *options, stdin='{"text": "a"}\n')
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line for line in done.stderr.splitlines() if "add_eos_token" in line]

    def test_a_warning_where_the_last_token_is_pooled_and_none_ends_inputs(self):
        without = {"tokenizer.ggml.add_eos_token": False}
        self.assertEqual(len(self.warnings("endless", without)), 1)
        self.assertIn("end every input with that token", self.warnings("endless", without)[0])
        self.assertEqual(self.warnings("ended", {}), [])
        self.assertEqual(self.warnings("mean", {**without, "qwen3.pooling_type": 1}), [])
        self.assertEqual(self.warnings("plain", {**without, "qwen3.pooling_type": 0}), [])
        self.assertEqual(len(self.warnings("plain", {**without, "qwen3.pooling_type": 0}, "--pooling", "last")), 1)


class RefusalTest(GgufTest):
    def assert_refused(self, path, *messages, command="embed"):
        done = run_espalier(command, "--model", path, stdin='{"text": "a"}\n')
        self.assertNotEqual(done.returncode, 0, done.stdout)
        for message in messages:
            self.assertIn(message, done.stderr)

    def test_metadata(self):
        cases = {
            "bert": ({"general.architecture": "bert"}, "general.architecture: 'bert' is not supported"),
            "bidirectional": ({"qwen3.attention.causal": False}, "qwen3.attention.causal: bidirectional"),
            "experts": ({"qwen3.expert_count": 8}, "qwen3.expert_count: is not supported"),
            "longrope": ({"qwen3.rope.scaling.type": "longrope"}, "qwen3.rope.scaling.type: 'longrope'"),
            "partial": ({"qwen3.rope.dimension_count": 32}, "qwen3.rope.dimension_count: is not supported unless"),
            "odd": ({"qwen3.attention.key_length": 63}, "qwen3.attention.key_length: 63 is not supported"),
            "huge": ({"qwen3.block_count": 1 << 31}, "qwen3.block_count: must be from 1 to 4096"),
            "type": ({"qwen3.block_count": "3"}, "qwen3.block_count: expected an integer, found string"),
            "split": ({"split.count": 2}, "split.count: the model is split into 2 files; join them"),
            "adapter": ({"general.type": "adapter"}, "general.type: the file is no model"),
            "words": ({"tokenizer.ggml.pre": "viking"}, "tokenizer.ggml.pre: \"viking\" is not supported"),
            "wordpiece": ({"tokenizer.ggml.model": "bert"}, "tokenizer.ggml.model: \"bert\" is not supported"),
            "end": ({"tokenizer.ggml.eos_token_id": 1 << 20}, "tokenizer.ggml.eos_token_id: 1048576 is not the id"),
            "types": ({"tokenizer.ggml.token_type": [1, 1]}, "tokenizer.ggml.token_type: has 2 numbers for"),
            "merges": ({"tokenizer.ggml.merges": ["qq zz"]}, "tokenizer.ggml.merges: merge 0, \"qq zz\", needs"),
        }
        for name, (metadata, message) in cases.items():
            with self.subTest(name):
                path = self.write(name, metadata=metadata)
                self.assert_refused(path, f"{path}: {message}")

    def test_tensors(self):
        path = self.write("unread", tensors=[("blk.0.attn_sinks.weight", np.ones(4, np.float32), "F32")])
        self.assert_refused(path, f"{path}: blk.0.attn_sinks.weight")
        path = self.write("experts", tensors=[("blk.0.ffn_up_exps.weight", np.ones((2, 4), np.float32), "F32")])
        self.assert_refused(path, f"{path}: blk.0.ffn_up_exps.weight")
        path = self.write("layers", metadata={"qwen3.block_count": 4})
        self.assert_refused(path, f"{path}: has no tensor that is layers.3.")
        path = self.write("width", metadata={"qwen3.feed_forward_length": 256})
        self.assert_refused(path, "expected shape [256, 256], found [512, 256]")

    def test_a_quantisation_that_is_not_supported(self):
        path = self.write("iq4", kind="Q4_0")
        data = path.read_bytes()
        name = b"blk.1.ffn_up.weight"
        at = data.index(name) + len(name) + 4 + 16  # the type, behind the number of dimensions and these
        self.assertEqual(int.from_bytes(data[at:at + 4], "little"), type_number("Q4_0"))
        path.write_bytes(data[:at] + (23).to_bytes(4, "little") + data[at + 4:])
        self.assert_refused(path, f"{path}: blk.1.ffn_up.weight: is stored as IQ4_XS, which is not supported")

    def test_files_that_are_cut_short(self):
        path = self.write("cut", kind="Q8_0")
        data = path.read_bytes()
        for size in (0, 3, 20, 1000, len(data) // 2, len(data) - 2000):
            path.write_bytes(data[:size])
            self.assert_refused(path, str(path), command="inspect" if size else "tokenize")

    def test_no_such_file(self):
        self.assert_refused(self.folder / "absent.gguf", "absent.gguf is not a folder")


if __name__ == "__main__":
    unittest.main()
