"""Model folders as people have them: the published variants give the same vectors, and what is broken or not
supported is refused at start-up with the file, the key and the reason."""

import json
import os
import struct
import tempfile
import unittest

import numpy as np

from espalier_server import MODEL, EspalierTest, golden, json_lines, run_espalier

NAMES = ("config.json", "tokenizer.json", "model.safetensors", "modules.json", "1_Pooling", "1_LogitScore",
         "config_sentence_transformers.json")


def read_safetensors(path):
    """{name: float32 array} of a file of BF16 tensors."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = (np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16).view(np.float32).reshape(
                entry["shape"])
    return tensors


def safetensors(tensors, dtype):
    """The bytes of a file; `tensors` must be exact in `dtype`."""
    header, parts, offset = {}, [], 0
    for name, tensor in tensors.items():
        if dtype == "BF16":
            part = (np.ascontiguousarray(tensor).view(np.uint32) >> 16).astype("<u2").tobytes()
        else:
            part = tensor.astype({"F16": "<f2", "F32": "<f4"}[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + len(part)]}
        offset += len(part)
        parts.append(part)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


class FolderTest(EspalierTest):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        for name in NAMES:
            os.symlink(os.path.join(MODEL, name), os.path.join(self.folder, name))

    def write(self, name, content):
        """Replaces a file of the folder; `content` is bytes or JSON."""
        path = os.path.join(self.folder, name)
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else json.dumps(content).encode())

    def remove(self, *names):
        for name in names:
            os.unlink(os.path.join(self.folder, name))

    def config(self, **changes):
        with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as file:
            return {**json.load(file), **changes}

    def embed(self):
        """Runs `espalier embed` on the golden texts."""
        texts = [entry["input"] for entry in golden()["embeddings"] if entry["input"]]
        return run_espalier("embed", "--model", self.folder, stdin=json_lines({"text": text} for text in texts))


class VariantTest(FolderTest):
    def assert_embeds(self, atol=1e-5):
        done = self.embed()
        self.assertEqual(done.returncode, 0, done.stderr)
        actual = np.array([json.loads(line)["embedding"] for line in done.stdout.splitlines()])
        expected = [entry["embedding"] for entry in golden()["embeddings"] if entry["input"]]
        np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)

    def test_without_sentence_transformers_files(self):
        self.remove("modules.json", "1_Pooling", "1_LogitScore", "config_sentence_transformers.json")
        self.assert_embeds()

    def test_tensor_names_without_the_model_prefix(self):
        tensors = read_safetensors(os.path.join(MODEL, "model.safetensors"))
        bare = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
        self.assertNotEqual(bare.keys(), tensors.keys())
        self.write("model.safetensors", safetensors(bare, "BF16"))
        self.assert_embeds()

    def test_float32_in_shards(self):
        tensors = list(read_safetensors(os.path.join(MODEL, "model.safetensors")).items())
        shards = {"model-00001-of-00002.safetensors": dict(tensors[::2]),
                  "model-00002-of-00002.safetensors": dict(tensors[1::2])}
        self.remove("model.safetensors")
        for name, part in shards.items():
            self.write(name, safetensors(part, "F32"))
        self.write("model.safetensors.index.json", {"metadata": {}, "weight_map": {
            tensor: name for name, part in shards.items() for tensor in part}})
        self.assert_embeds()

    def test_float16(self):
        tensors = read_safetensors(os.path.join(MODEL, "model.safetensors"))
        self.write("model.safetensors", safetensors(tensors, "F16"))
        self.assert_embeds(atol=1e-3)  # bf16's small values are subnormal in f16

    def test_an_untied_head_scores_and_a_tied_one_is_the_embedding_table(self):
        tensors = read_safetensors(os.path.join(MODEL, "model.safetensors"))
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
        self.write("model.safetensors", safetensors(tensors, "BF16"))
        self.write("config.json", self.config(tie_word_embeddings=False))
        entry = golden()["rerank"][0]
        arguments = ("rerank", "--model", self.folder, "--query", entry["query"])
        done = run_espalier(*arguments, stdin=json_lines([{"text": entry["document"]}]))
        self.assertAlmostEqual(json.loads(done.stdout)["score"], entry["score"], delta=1e-4)

        tensors["lm_head.weight"] = tensors["lm_head.weight"] * 0
        self.write("model.safetensors", safetensors(tensors, "BF16"))
        done = run_espalier(*arguments, stdin=json_lines([{"text": entry["document"]}]))
        self.assertAlmostEqual(json.loads(done.stdout)["score"], 0.5, delta=1e-6)


class WindowTest(FolderTest):
    """Texts that fit a sliding window are computed; for longer ones the limit says why."""

    def setUp(self):
        super().setUp()
        self.write("config.json", self.config(use_sliding_window=True, sliding_window=512, max_window_layers=0))

    def test_texts_that_fit_have_the_vectors_that_they_have_without_it(self):
        VariantTest.assert_embeds(self)

    def test_inspect_names_it(self):
        done = run_espalier("inspect", "--model", self.folder)
        self.assertRegex(done.stdout, r"(?m)^positions +512 by sliding_window.*inputs up to 512 tokens")

    def test_a_higher_limit_is_refused(self):
        done = run_espalier("embed", "--model", self.folder, "--max-input-tokens", "513")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the model's 512 positions (config.json's sliding_window", done.stderr)


class RefusalTest(FolderTest):
    def assert_refused(self, *message):
        done = self.embed()
        self.assertEqual((done.returncode, done.stdout[:80]), (1, ""), done.stderr)
        for expected in message:
            self.assertIn(expected, done.stderr)

    def test_no_folder(self):
        done = run_espalier("embed", "--model", "/nowhere/model")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/model", done.stderr)

    def test_missing_files(self):
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            path = os.path.join(self.folder, name)
            target = os.readlink(path)
            os.unlink(path)
            self.assert_refused(name)
            os.symlink(target, path)
        self.assertEqual(self.embed().returncode, 0)

    def test_another_model_type(self):
        self.write("config.json", self.config(model_type="gemma3"))
        self.assert_refused("config.json", "model_type", "gemma3")
        # Of a family that is supported, but not the weights'.
        self.write("config.json", self.config(model_type="llama", architectures=["LlamaModel"]))
        self.assert_refused("model.safetensors", "k_norm.weight")
        self.write("config.json", self.config(model_type="qwen2", architectures=["Qwen2Model"]))
        self.assert_refused("model.safetensors", "q_proj.bias")

    def test_settings_that_would_change_results(self):
        for key, changes in (("rope_scaling", {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
                             ("layer_types", {"layer_types": ["sliding_attention"] * 4}),
                             ("hidden_act", {"hidden_act": "relu"}), ("mlp_bias", {"mlp_bias": True}),
                             ("auto_map", {"auto_map": {"AutoModel": "modeling.Mine"}}),
                             ("is_causal", {"is_causal": False}), ("residual_multiplier", {"residual_multiplier": 0.2}),
                             ("partial_rotary_factor", {"partial_rotary_factor": 0.5})):
            with self.subTest(key=key):
                self.write("config.json", self.config(**changes))
                self.assert_refused("config.json", key)

    def test_a_config_that_is_malformed_or_nonsense(self):
        self.write("config.json", b'{"model_type": "qwen3",')
        self.assert_refused("config.json")
        for key, value in (("hidden_size", 0), ("hidden_size", "256"), ("num_hidden_layers", -1), ("head_dim", 63),
                           ("num_key_value_heads", 3), ("num_attention_heads", 2**60), ("rms_norm_eps", "small"),
                           ("vocab_size", 1e300)):
            with self.subTest(key=key, value=value):
                self.write("config.json", self.config(**{key: value}))
                self.assert_refused("config.json", key)

    def test_tensors_that_do_not_fit_the_config(self):
        self.write("config.json", self.config(intermediate_size=512))
        self.assert_refused("model.safetensors", "mlp.", "512")
        self.write("config.json", self.config(num_hidden_layers=5))
        self.assert_refused("model.safetensors", "layers.4.")

    def test_broken_safetensors(self):
        with open(os.path.join(MODEL, "model.safetensors"), "rb") as file:
            good = file.read()
        length = struct.unpack("<Q", good[:8])[0]
        moved = good[8:8 + length].replace(b'"data_offsets":[0,', b'"data_offsets":[9,')
        for what, content in (("empty", b""), ("cut in the header", good[:100]), ("cut in the data", good[:-1]),
                              ("header of 2^63 bytes", struct.pack("<Q", 2**63) + good[8:]),
                              ("no JSON", good[:8] + b"x" * length + good[8 + length:]),
                              ("offsets that leave a gap", good[:8] + moved + good[8 + length:]),
                              ("deep nesting", struct.pack("<Q", 1_000_000) + b"[" * 1_000_000)):
            with self.subTest(what):
                self.write("model.safetensors", content)
                self.assert_refused("model.safetensors")

    def test_a_shard_outside_the_folder(self):
        self.remove("model.safetensors")
        self.write("model.safetensors.index.json", {"weight_map": {"model.norm.weight": "../../etc/passwd"}})
        self.assert_refused("model.safetensors.index.json")

    def test_a_broken_tokenizer(self):
        for content in (b"", b"{}", b"[" * 1_000_000, b'{"model": {"type": "WordPiece"}}'):
            self.write("tokenizer.json", content)
            self.assert_refused("tokenizer.json")

    def test_pooling_that_is_not_supported(self):
        os.unlink(os.path.join(self.folder, "1_Pooling"))
        os.mkdir(os.path.join(self.folder, "1_Pooling"))
        self.write("1_Pooling/config.json", {"word_embedding_dimension": 256, "pooling_mode_max_tokens": True,
                                             "pooling_mode_lasttoken": False})
        self.assert_refused("1_Pooling/config.json", "pooling_mode")


class WithoutRerankTest(FolderTest):
    def test_a_model_whose_tokenizer_has_no_chat_tokens_serves_embeddings_alone(self):
        with open(os.path.join(MODEL, "tokenizer.json"), encoding="utf-8") as file:
            tokenizer = json.load(file)
        tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"]
                                     if token["content"] == "<|endoftext|>"]
        self.write("tokenizer.json", tokenizer)
        server = self.start(model=self.folder)
        self.assertEqual(server.embed("salt").shape, (1, 256))
        self.assert_error(server.post("/v1/rerank", {"query": "salt", "documents": ["salt"]}), 400, "model",
                          message="cannot rerank")
        server.stop()


if __name__ == "__main__":
    unittest.main()
