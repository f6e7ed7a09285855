"""LoRA adapters from the command line: adapters that the model brings along, those of several models, and hostile ones."""

import json
import os
import shutil
import tempfile
import unittest

import numpy as np

from espalier_server import HIDDEN_SIZE, MODEL, Server, json_lines, run_espalier
from test_model_folders import safetensors

PREFIX = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
OUTPUTS, RANK = 256, 4


class AdapterTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.adapter = os.path.join(self.folder, "adapter")
        os.mkdir(self.adapter)
        rng = np.random.default_rng(1)
        self.tensors = {PREFIX + "A.weight": rng.standard_normal((RANK, HIDDEN_SIZE), np.float32),
                        PREFIX + "B.weight": rng.standard_normal((OUTPUTS, RANK), np.float32)}
        self.config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "bias": "none", "target_modules": ["q_proj"]}
        self.write()

    def write(self, tensors=None, **config):
        with open(os.path.join(self.adapter, "adapter_config.json"), "w", encoding="utf-8") as file:
            json.dump({**self.config, **config}, file)
        with open(os.path.join(self.adapter, "adapter_model.safetensors"), "wb") as file:
            file.write(safetensors(self.tensors if tensors is None else tensors, "F32"))

    def embed(self, *options, model=MODEL):
        done = run_espalier("embed", "--model", model, *options, stdin=json_lines([{"text": "a tiger"}]))
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.array(json.loads(done.stdout)["embedding"])

    def assert_refused(self, *message):
        done = run_espalier("embed", "--model", MODEL, "--lora", self.adapter, stdin=json_lines([{"text": "a"}]))
        self.assertEqual(done.returncode, 1, done.stderr)
        for part in message:
            self.assertIn(part, done.stderr)


class LoraTest(AdapterTest):
    def test_an_adapter_changes_embeddings_and_one_of_zeros_does_not(self):
        plain = self.embed()
        self.assertLess(plain @ self.embed("--lora", self.adapter), 0.9999)
        self.write({name: 0 * values for name, values in self.tensors.items()})
        np.testing.assert_allclose(self.embed("--lora", self.adapter), plain, atol=1e-6)

    def test_inspect_names_it(self):
        text = run_espalier("inspect", "--model", MODEL, "--lora", self.adapter).stdout
        self.assertRegex(text, r"(?m)^LoRA +\S+/adapter, rank 4, alpha 8$")

    def test_the_models_own_adapters_are_known_by_name(self):
        model = os.path.join(self.folder, "model")
        shutil.copytree(MODEL, model, ignore=shutil.ignore_patterns("training", "eval*", "golden.json"))
        shutil.copytree(self.adapter, os.path.join(model, "adapters", "retrieval"))
        expected = self.embed("--lora", self.adapter)
        np.testing.assert_array_equal(self.embed("--lora", "retrieval", model=model), expected)
        done = run_espalier("inspect", "--model", model, "--lora", "clustering")
        self.assertIn("the model's own adapters are retrieval", done.stderr)

    def test_of_two_models_the_named_one_gets_it(self):
        server = Server("--model", "plain=" + MODEL, "--model", "tuned=" + MODEL, "--lora", "tuned=" + self.adapter,
                        model=None)
        self.addCleanup(server.kill)
        self.assertIn("with LoRA adapter", server.log_text())
        np.testing.assert_allclose(server.embed(["a tiger"], model="plain")[0], self.embed(), atol=1e-5)

    def test_settings_that_would_change_results(self):
        for config, key in (({"use_dora": True}, "use_dora"), ({"modules_to_save": ["score"]}, "modules_to_save"),
                            ({"bias": "all"}, "bias"), ({"fan_in_fan_out": True}, "fan_in_fan_out"),
                            ({"init_lora_weights": "pissa"}, "init_lora_weights"), ({"peft_type": "IA3"}, "peft_type"),
                            ({"layer_replication": [[0, 2]]}, "layer_replication"), ({"something_new": 1}, "something_new"),
                            ({"rank_pattern": {"^.*q$": 2}}, "rank_pattern"), ({"r": 0}, "r"), ({"r": "4"}, "r"),
                            ({"lora_alpha": None}, "lora_alpha"), ({"lora_alpha": "8"}, "lora_alpha")):
            with self.subTest(config):
                self.write(**config)
                self.assert_refused("adapter_config.json", key)

    def test_tensors_that_do_not_fit(self):
        a, b = self.tensors[PREFIX + "A.weight"], self.tensors[PREFIX + "B.weight"]
        for tensors, message in (
                ({PREFIX + "A.weight": a}, "has no lora_B.weight"), ({}, "has no tensors"),
                ({PREFIX + "A.weight": a[:, 1:], PREFIX + "B.weight": b}, "expected shape [4, 256]"),
                ({PREFIX + "A.weight": a[1:], PREFIX + "B.weight": b[:, 1:]}, "expected shape [4, 256]"),
                ({**self.tensors, "model.x": a}, "is not a tensor of a PEFT adapter"),
                ({**self.tensors, PREFIX.replace("lora_", "lora_magnitude_vector"): a}, "DoRA"),
                ({**self.tensors, "base_model.model.score.weight": a}, "modules_to_save"),
                ({**self.tensors, "base_model.model.model.embed_tokens.lora_embedding_A": a}, "token embeddings"),
                ({name.replace("layers.0", "layers.9"): values for name, values in self.tensors.items()},
                 "trained for another model")):
            with self.subTest(message):
                self.write(tensors)
                self.assert_refused("adapter_model.safetensors", message)

    def test_broken_files(self):
        path = os.path.join(self.adapter, "adapter_model.safetensors")
        with open(path, "rb") as file:
            whole = file.read()
        for cut in (0, 7, 60, len(whole) - 1):
            with open(path, "wb") as file:
                file.write(whole[:cut])
            self.assert_refused("adapter_model.safetensors")
        os.remove(path)
        self.assert_refused("has no adapter_model.safetensors")


class KnownCodeTest(AdapterTest):
    """The bundled model, published as jina-embeddings-v5-text-small is: one decoder, an adapter for each task."""

    PUBLISHED = {"model_type": "jina_embeddings_v5", "architectures": ["JinaEmbeddingsV5Model"],
                 "task_names": ["retrieval", "text-matching"],
                 "auto_map": {"AutoConfig": "configuration_jina_embeddings_v5.JinaEmbeddingsV5Config",
                              "AutoModel": "modeling_jina_embeddings_v5.JinaEmbeddingsV5Model"}}

    def setUp(self):
        super().setUp()
        self.model = os.path.join(self.folder, "model")
        shutil.copytree(MODEL, self.model, ignore=shutil.ignore_patterns("training", "eval*", "golden.json", "1_*"))
        self.change_config()
        self.write_json("modules.json", [{"idx": 0, "name": "transformer", "path": "", "type": "custom_st.Transformer",
                                          "kwargs": ["task", "truncate_dim"]}])
        self.write_json("config_sentence_transformers.json",
                        {"prompts": {"query": "Query: ", "document": "Document: "}, "default_prompt_name": "document"})
        for name in ("retrieval", "text-matching"):
            shutil.copytree(self.adapter, os.path.join(self.model, "adapters", name))

    def write_json(self, name, content):
        with open(os.path.join(self.model, name), "w", encoding="utf-8") as file:
            json.dump(content, file)

    def change_config(self, **changes):
        with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as file:
            self.write_json("config.json", {**json.load(file), **self.PUBLISHED, **changes})

    def test_with_an_adapter_it_is_the_familys_decoder(self):
        server = Server("--lora", "retrieval", model=self.model)
        self.addCleanup(server.kill)
        self.assertIn("with LoRA adapter", server.log_text())
        found = server.embed(["a tiger"], input_type="query")[0]
        expected = run_espalier("embed", "--model", MODEL, "--lora", self.adapter,
                                stdin=json_lines([{"text": "Query: a tiger"}]))
        self.assertEqual(expected.returncode, 0, expected.stderr)
        np.testing.assert_allclose(found, json.loads(expected.stdout)["embedding"], atol=1e-5)
        self.assertEqual([model["id"] for model in server.get("/v1/models").json()["data"]], ["model"])
        self.assertEqual(server.get("/info").json()["model_id"], "model")
        # It embeds, and says so when asked to rerank.
        self.assertEqual(server.post("/v1/rerank", {"query": "a", "documents": ["b"]}).status, 400)

    def test_without_one_it_says_what_to_do(self):
        done = run_espalier("embed", "--model", self.model, stdin=json_lines([{"text": "a"}]))
        self.assertEqual(done.returncode, 1)
        for part in ("--lora retrieval", "text-matching", "jinaai/jina-embeddings-v5-text-small-retrieval"):
            self.assertIn(part, done.stderr)

    def test_other_code_is_refused(self):
        for changes, message in (({"is_decoder": False}, "is_decoder: false"), ({"auto_map": {"AutoModel": "x.Y"}}, "auto_map"),
                                 ({"architectures": ["JinaEmbeddingsV5OmniModel"]}, "model_type")):
            with self.subTest(message):
                self.change_config(**changes)
                done = run_espalier("embed", "--model", self.model, "--lora", "retrieval", stdin='{"text": "a"}\n')
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"config.json: {message}", done.stderr)


if __name__ == "__main__":
    unittest.main()
