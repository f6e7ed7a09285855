"""Models fetched by name and served at once: adapters that a repository brings along, and GGUF files."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

from hub_test import MINI, MODEL, NAME, HubTest, json_of

from espalier_server import HIDDEN_SIZE, Server, json_lines
from test_model_folders import safetensors

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gguf"))
from random_models import RandomModel, vocabulary_of_tokenizer_json  # noqa: E402

GGUF_NAME = "espalier/mini-GGUF"
RANK, OUTPUTS = 4, 256


def adapter_files(seed, folder=""):
    rng = np.random.default_rng(seed)
    prefix = "base_model.model.layers.0.self_attn.q_proj.lora_"
    tensors = {prefix + "A.weight": rng.standard_normal((RANK, HIDDEN_SIZE), np.float32),
               prefix + "B.weight": rng.standard_normal((OUTPUTS, RANK), np.float32)}
    return {folder + "adapter_config.json": json.dumps({"peft_type": "LORA", "r": RANK, "lora_alpha": 8}).encode(),
            folder + "adapter_model.safetensors": safetensors(tensors, "F32")}


def write_files(folder, files):
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


class AdapterTest(HubTest):
    """As jina-embeddings-v5-text-small: adapters/TASK/…"""

    def setUp(self):
        super().setUp()
        self.files = {**MINI, **adapter_files(1, "adapters/retrieval/"), **adapter_files(2, "adapters/clustering/")}
        self.hub.add(NAME, {**self.files, "adapters/README.md": b"r", "adapters/retrieval/training_args.bin": b"t"})

    def start(self, *options, **env):
        server = Server(*options, model=None, env=self.environment(**env))
        self.addCleanup(server.kill)
        return server

    def locally(self, seed, model=MODEL):
        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, adapter_files(seed))
            done = self.run_command("embed", "--model", model, "--lora", folder, stdin=json_lines([{"text": "a tiger"}]))
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.array(json_of(done)["embedding"])

    def test_adapters_come_with_the_model_and_are_chosen_by_name(self):
        path = self.download()
        self.assertEqual(sorted(os.listdir(os.path.join(path, "adapters"))), ["clustering", "retrieval"])
        self.assertEqual(sorted(os.listdir(os.path.join(path, "adapters", "retrieval"))),
                         ["adapter_config.json", "adapter_model.safetensors"])
        for seed, adapter in ((1, "retrieval"), (2, "clustering")):
            server = self.start("--model", NAME, "--lora", adapter, HF_HUB_OFFLINE="1")
            np.testing.assert_allclose(server.embed(["a tiger"])[0], self.locally(seed), atol=1e-5)
            self.assertEqual([model["id"] for model in server.get("/v1/models").json()["data"]], [NAME])
            server.stop()
        done = self.run_command("serve", "--port", "0", "--model", NAME, "--lora", "classification")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the model's own adapters are clustering, retrieval", done.stderr)

    def test_fetched_and_served_in_one_step_beside_the_model_alone(self):
        server = self.start("--model", NAME, "--model", "tuned=" + MODEL, "--lora", NAME + "=retrieval")
        np.testing.assert_allclose(server.embed(["a tiger"], model=NAME)[0], self.locally(1), atol=1e-5)
        plain = server.embed(["a tiger"], model="tuned")[0]
        self.assertLess(plain @ server.embed(["a tiger"], model=NAME)[0], 0.9999)

    def test_a_repository_that_is_an_adapter(self):
        self.hub.add(NAME, adapter_files(1))
        self.assert_fails("is a LoRA adapter and no model: .*--lora FOLDER")


class GgufTest(HubTest):
    def setUp(self):
        super().setUp()
        with open(os.path.join(MODEL, "tokenizer.json"), encoding="utf-8") as file:
            vocabulary = vocabulary_of_tokenizer_json(json.load(file))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.local = Path(folder.name)
        model = RandomModel("qwen3", vocabulary.size, seed=6)
        names = [f"mini-{kind}.gguf" for kind in ("Q8_0", "Q4_K")]
        for name in names:
            model.write(self.local / name, name[5:-5], vocabulary)
        self.hub.add(GGUF_NAME, {**{name: (self.local / name).read_bytes() for name in names}, "README.md": b"r"})

    def test_one_file_is_fetched_and_served(self):
        server = Server(model=f"{GGUF_NAME}:Q8_0", env=self.environment())
        self.addCleanup(server.kill)
        self.assertEqual([model["id"] for model in server.get("/v1/models").json()["data"]], [GGUF_NAME])
        done = self.run_command("embed", "--model", self.local / "mini-Q8_0.gguf", stdin=json_lines([{"text": "a tiger"}]))
        np.testing.assert_allclose(server.embed(["a tiger"])[0], json_of(done)["embedding"], atol=1e-5)
        self.assertEqual(self.hub.count("GET", "Q4_K"), 0)
        server.stop()
        self.hub.forget()
        again = self.run_command("embed", "--model", f"{GGUF_NAME}:Q8_0", stdin='{"text": "a tiger"}\n', HF_HUB_OFFLINE="1")
        self.assertEqual(json_of(again)["embedding"], json_of(done)["embedding"])
        self.assertEqual(self.hub.count(), 0)

    def test_with_an_adapter(self):
        folder = os.path.join(self.home, "adapter")
        os.mkdir(folder)
        write_files(folder, adapter_files(1))
        embedded = [json_of(self.run_command("embed", "--model", model, "--lora", folder, stdin='{"text": "a tiger"}\n'))
                    for model in (f"{GGUF_NAME}:Q4_K", self.local / "mini-Q4_K.gguf")]
        self.assertEqual(embedded[0]["embedding"], embedded[1]["embedding"])


if __name__ == "__main__":
    unittest.main()
