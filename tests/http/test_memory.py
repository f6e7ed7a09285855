"""The memory that is predicted, against what the process takes and what it is allowed."""

import base64
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

import espalier_server
from espalier_server import BINARY, MODEL, Server, environment, run_espalier

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "gguf"))
from random_models import RandomModel, vocabulary_of_tokenizer_json  # noqa: E402

MEGABYTES = {"MB": 1, "GB": 1000}
GROUPS = "/sys/fs/cgroup"


def megabytes(text):
    number, unit = text.split()
    return float(number) * MEGABYTES[unit]


def anonymous_megabytes(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"RssAnon:\s+(\d+)", file.read()).group(1)) * 1024 / 1e6


def sanitized():
    with open(BINARY, "rb") as file:
        return b"__asan_init" in file.read() or "tsan" in BINARY


class LimitedGroup:
    """A control group with a memory limit for one process; None where the test may not make one."""

    def __init__(self, limit_bytes):
        v2 = os.path.exists(os.path.join(GROUPS, "cgroup.controllers"))
        parent, limit_file = (GROUPS, "memory.max") if v2 else (os.path.join(GROUPS, "memory"), "memory.limit_in_bytes")
        self.folder = os.path.join(parent, f"espalier_test_{os.getpid()}")
        os.mkdir(self.folder)
        try:
            with open(os.path.join(self.folder, limit_file), "w", encoding="ascii") as file:
                file.write(str(limit_bytes))
        except OSError:
            self.remove()
            raise

    def enter(self):
        with open(os.path.join(self.folder, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    def remove(self):
        os.rmdir(self.folder)


def run_within(group, *arguments):
    return subprocess.run([BINARY, *map(str, arguments)], env=environment(), capture_output=True, text=True,
                          preexec_fn=group.enter if group else None, stdin=subprocess.DEVNULL,
                          timeout=espalier_server.time_limit(60), check=False)


class PredictionTest(unittest.TestCase):
    """A server whose largest batch has run holds what was predicted, within 15 % and a few MB."""

    def check(self, model, dtype, vocabulary, *options):
        # One thread for requests: what the allocator keeps of their bodies, on each thread that handled one, is not
        # the models' memory.
        server = Server("--dtype", dtype, "--http-threads", 1, "--tokenizer-threads", 1, *options, model=model)
        self.addCleanup(server.kill)
        log = server.log_text()
        predicted = megabytes(re.search(r"memory: predicted ([\d.]+ [MG]B):", log).group(1))
        self.assertRegex(log, r"memory: [\d.]+ [MG]B in use")
        # Three tokens each, the end token among them: as many rows as a batch has.
        inputs = [[i % vocabulary, i * 7 % vocabulary] for i in range(1, 1366)]
        for _ in range(2):
            reply = server.post("/v1/embeddings", {"input": inputs, "encoding_format": "base64"})
            self.assertEqual(reply.status, 200, reply)
        self.assertTrue(np.isfinite(np.frombuffer(base64.b64decode(reply.json()["data"][7]["embedding"]), "<f4")).all())
        taken = anonymous_megabytes(server)
        # What the requests themselves took, a few MB, has been given back by now.
        self.assertLess(abs(predicted - taken), 0.15 * taken + 6, f"{dtype}: predicted {predicted}, took {taken}")
        return predicted, taken

    @unittest.skipIf(sanitized(), "a sanitizer's shadow memory is not predicted")
    def test_the_bundled_model(self):
        for dtype in ("f32", "bf16", "int8"):
            with self.subTest(dtype):
                print(dtype, *self.check(MODEL, dtype, 8000), file=sys.stderr)

    @unittest.skipIf(sanitized(), "a sanitizer's shadow memory is not predicted")
    def test_a_random_model_of_another_shape(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        tokenizer = os.path.join(MODEL, "tokenizer.json")
        subprocess.run([sys.executable, os.path.join(ROOT, "tools", "make_random_model.py"), folder, "--size", "tiny",
                        "--tokenizer", tokenizer], check=True, capture_output=True)
        for dtype in ("f32", "bf16", "int8"):
            with self.subTest(dtype):
                print("tiny", dtype, *self.check(folder, dtype, 8000, "--max-input-tokens", 4096), file=sys.stderr)


    @unittest.skipIf(sanitized(), "a sanitizer's shadow memory is not predicted")
    def test_gguf_files(self):
        with open(os.path.join(MODEL, "tokenizer.json"), encoding="utf-8") as file:
            vocabulary = vocabulary_of_tokenizer_json(json.load(file))
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for kind, dtype in (("F32", "f32"), ("Q8_0", "bf16"), ("Q4_K", "int8")):
            with self.subTest(kind=kind):
                path = folder / f"{kind}.gguf"
                RandomModel("qwen3", vocabulary.size, seed=7).write(path, kind, vocabulary)
                print(kind, dtype, *self.check(str(path), dtype, 8000), file=sys.stderr)


class LimitTest(unittest.TestCase):
    def test_inspect_shows_parts_and_limit(self):
        text = run_espalier("inspect", "--model", MODEL).stdout
        for part in ("weights", "tokenizer", "batches", "base", "besides", "limit"):
            self.assertRegex(text, rf"(?m)^  {part} +[\d.]+ [MG]B  ")
        parts = [megabytes(re.search(rf"  {part} +([\d.]+ [MG]B)", text).group(1))
                 for part in ("weights", "tokenizer", "batches", "base")]
        total = megabytes(re.search(r"(?m)^memory +([\d.]+ [MG]B)", text).group(1))
        self.assertAlmostEqual(sum(parts), total, delta=0.3)

    @unittest.skipIf(sanitized(), "a sanitizer's shadow memory is more than the group has")
    def test_a_control_group_that_is_too_small(self):
        try:
            group = LimitedGroup(64 << 20)
        except OSError as error:
            self.skipTest(f"may not make a control group: {error}")
        self.addCleanup(group.remove)
        inspected = run_within(group, "inspect", "--model", MODEL)
        self.assertIn("67.1 MB  the control group's limit", inspected.stdout, inspected.stderr)
        done = run_within(group, "serve", "--port", 0, "--model", MODEL)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"memory that will be needed, 4\d\.\d MB: weights 12\.6 MB, .* "
                         r"and 33\.6 MB for requests, is more than the control group's limit, 67\.1 MB")
        self.assertRegex(done.stderr, r"--max-batch-tokens \d+ --max-input-tokens \d+ would fit")
        # What it advises works.
        advised = re.search(r"(--max-batch-tokens \d+ --max-input-tokens \d+) would fit", done.stderr).group(1).split()
        embedded = subprocess.run([BINARY, "embed", "--model", MODEL, *advised], env=environment(),
                                  input='{"text": "a"}\n', capture_output=True, text=True, preexec_fn=group.enter,
                                  timeout=espalier_server.time_limit(60), check=False)
        self.assertEqual(embedded.returncode, 0, embedded.stderr)
        self.assertEqual(len(json.loads(embedded.stdout)["embedding"]), espalier_server.HIDDEN_SIZE)
        warned = run_within(group, "embed", "--model", MODEL, "--memory-check", "warn")
        self.assertEqual(warned.returncode, 0)
        self.assertIn("is more than the control group's limit", warned.stderr)
        self.assertNotIn("memory that will", run_within(group, "embed", "--memory-check", "off").stderr)

    @unittest.skipIf(sanitized(), "sanitizers need all of the address space")
    def test_an_address_space_that_is_too_small(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
        done = subprocess.run([BINARY, "embed", "--model", MODEL], env=environment(), capture_output=True, text=True,
                              preexec_fn=limit, stdin=subprocess.DEVNULL, check=False,
                              timeout=espalier_server.time_limit(60))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("RLIMIT_AS", done.stderr)


if __name__ == "__main__":
    unittest.main()
