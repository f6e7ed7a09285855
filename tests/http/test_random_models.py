"""A tiny random model in a shape that the bundled one has not: head_dim ≠ hidden / heads, one key-value head, a
head of its own, float32, no sentence-transformers files. The server answers, and neither the dedup mode, nor the
batch, nor the order of requests changes an answer."""

import json
import os
import shutil
import struct
import tempfile
import unittest

import numpy as np

from espalier_server import END_TOKEN, MODEL, VOCABULARY, EspalierTest

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, MLP = 48, 3, 3, 1, 32, 80
TOLERANCE = 1e-5


def random_weights(seed):
    """Tensors by name, all float32, scaled so that activations stay of order one."""
    rng = np.random.default_rng(seed)

    def matrix(rows, columns):
        return rng.normal(0, columns ** -0.5, (rows, columns)).astype(np.float32)

    def norm(size):
        return rng.normal(1, 0.1, size).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(VOCABULARY, HIDDEN) * 7,
               "model.norm.weight": norm(HIDDEN),
               "lm_head.weight": matrix(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        weights |= {f"model.layers.{layer}.{name}.weight": tensor for name, tensor in {
            "input_layernorm": norm(HIDDEN),
            "self_attn.q_proj": matrix(HEADS * HEAD_DIM, HIDDEN),
            "self_attn.k_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.o_proj": matrix(HIDDEN, HEADS * HEAD_DIM),
            "self_attn.q_norm": norm(HEAD_DIM),
            "self_attn.k_norm": norm(HEAD_DIM),
            "post_attention_layernorm": norm(HIDDEN),
            "mlp.gate_proj": matrix(MLP, HIDDEN),
            "mlp.up_proj": matrix(MLP, HIDDEN),
            "mlp.down_proj": matrix(HIDDEN, MLP),
        }.items()}
    return weights


def write_safetensors(path, tensors):
    """Little-endian header length, JSON header, data."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.astype("<f4").tobytes())


def write_model(folder, seed):
    with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config |= {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
               "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": MLP,
               "tie_word_embeddings": False, "torch_dtype": "float32"}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    shutil.copy(os.path.join(MODEL, "tokenizer.json"), folder)
    write_safetensors(os.path.join(folder, "model.safetensors"), random_weights(seed))


def texts_with_shared_prefixes(seed):
    """Token lists: whole repeats, one a prefix of another, shared beginnings of all lengths, nothing shared."""
    rng = np.random.default_rng(seed)
    inputs = []
    for _ in range(60):
        ids = rng.integers(0, END_TOKEN, rng.integers(1, 40)).tolist()
        if inputs and rng.random() < 0.8:
            base = inputs[rng.integers(len(inputs))]
            ids = base[:rng.integers(1, len(base) + 1)] + ids[:rng.integers(0, len(ids) + 1)]
        inputs.append(ids)
    return inputs + inputs[:5]


class RandomModelTest(EspalierTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        write_model(cls.folder, seed=11)
        modes = {"trie": (), "radixmlp": (), "off": (), "trie in small batches": ("--max-batch-tokens", "50")}
        cls.servers = {mode: cls.start("--dedup", mode.split()[0], *options, model=cls.folder)
                       for mode, options in modes.items()}
        cls.inputs = texts_with_shared_prefixes(seed=12)
        cls.together = cls.servers["off"].embed(cls.inputs)

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers.values():
            server.stop()

    def assert_same(self, actual, expected, message):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE, err_msg=message)

    def test_embeddings_are_unit_vectors_that_tell_inputs_apart(self):
        self.assertEqual(self.together.shape, (len(self.inputs), HIDDEN))
        np.testing.assert_allclose(np.linalg.norm(self.together, axis=1), 1, atol=1e-5)
        distinct = {tuple(ids) for ids in self.inputs}
        self.assertEqual(len({tuple(row) for row in self.together.round(4)}), len(distinct))

    def test_all_modes_agree(self):
        for mode, server in self.servers.items():
            self.assert_same(server.embed(self.inputs), self.together, mode)

    def test_each_input_alone_gives_what_the_batch_gave(self):
        for mode, server in self.servers.items():
            alone = np.concatenate([server.embed(ids) for ids in self.inputs])
            self.assert_same(alone, self.together, mode)

    def test_the_order_of_inputs_does_not_matter(self):
        order = np.random.default_rng(13).permutation(len(self.inputs))
        for mode, server in self.servers.items():
            shuffled = server.embed([self.inputs[i] for i in order])
            self.assert_same(shuffled, self.together[order], mode)

    def test_requests_in_flight_together_do_not_change_each_other(self):
        for mode, server in self.servers.items():
            requests = [server.in_background("/v1/embeddings", {"input": self.inputs[i:i + 5]})
                        for i in range(0, len(self.inputs), 5)]
            answers = np.concatenate([request.result().embeddings() for request in requests])
            self.assert_same(answers, self.together, mode)

    def test_rerank_scores_agree_in_all_modes_and_alone(self):
        documents = ["an espalier is a tree", "an espalier is a tree trained to grow flat", "", "salt"]
        expected = self.servers["off"].rerank("a tree", documents)
        self.assertEqual(len(set(expected.round(6))), len(documents))
        for mode, server in self.servers.items():
            self.assert_same(server.rerank("a tree", documents), expected, mode)
            alone = np.concatenate([server.rerank("a tree", [document]) for document in documents])
            self.assert_same(alone, expected, mode)


if __name__ == "__main__":
    unittest.main()
