"""What the server says before it is ready, and what keeps it from getting ready."""

import http.client
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
import unittest

import numpy as np

import espalier_server
from espalier_server import MODEL, Server, free_port, wait_until


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=espalier_server.time_limit(10))
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        return espalier_server.Reply(answer.status, answer.getheaders(), answer.read())
    finally:
        connection.close()


def answers(port):
    try:
        return ask(port, "GET", "/nothing")
    except OSError:
        return None


class ModelCopy(unittest.TestCase):
    """A model folder that tests may damage."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = os.path.join(self.folder, "model")
        shutil.copytree(MODEL, self.model, ignore=shutil.ignore_patterns("training", "eval*", "golden.json"))


class LoadingTest(ModelCopy):
    def start_loading(self, *options):
        """A server that stops where it reads tokenizer.json, a pipe, until `finish` writes it."""
        self.pipe = os.path.join(self.model, "tokenizer.json")
        with open(self.pipe, "rb") as file:
            self.content = file.read()
        os.remove(self.pipe)
        os.mkfifo(self.pipe)
        self.port = free_port()
        process = subprocess.Popen([espalier_server.BINARY, "serve", "--model", self.model, "--port", str(self.port),
                                    *map(str, options)], env=espalier_server.environment(),
                                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def finish(self):
        with open(self.pipe, "wb") as file:
            file.write(self.content)
        wait_until(lambda: ask(self.probes, "GET", "/readyz").status == 200, "the server gets ready")

    def check_while_loading(self):
        for path in ("/readyz", "/health"):
            reply = ask(self.probes, "GET", path)
            self.assertEqual((reply.status, reply.json()), (503, {"status": "loading"}), path)
        self.assertEqual(ask(self.probes, "GET", "/livez").status, 200)
        metrics = ask(self.probes, "GET", "/metrics")
        self.assertEqual(metrics.status, 200)
        self.assertIn("\nespalier_ready 0\n", metrics.body.decode())

    def check_inference_while_loading(self):
        for method, path in (("POST", "/v1/embeddings"), ("POST", "/v1/rerank"), ("POST", "/v2/embed"),
                             ("GET", "/v1/models"), ("GET", "/"), ("GET", "/stats")):
            reply = ask(self.port, method, path, b'{"input": "a"}' if method == "POST" else None)
            self.assertEqual(reply.status, 503, path)
            self.assertEqual(reply.error()["code"], "model_loading", path)
            self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
        for path in ("/embed", "/embed_all", "/tokenize"):
            reply = ask(self.port, "POST", path, b'{"inputs": "a"}')
            self.assertEqual((reply.status, reply.json()["error_type"]), (503, "Unhealthy"), path)
        # A body that is not read does not hold the answer up.
        reply = ask(self.port, "POST", "/v1/embeddings", b" " * (1 << 20))
        self.assertEqual(reply.status, 503)

    def test_probes_and_requests_on_one_port(self):
        self.start_loading()
        self.probes = self.port
        wait_until(lambda: answers(self.port), "the port answers")
        self.check_while_loading()
        self.check_inference_while_loading()
        self.assertRegex(ask(self.port, "GET", "/metrics").body.decode(),
                         r'espalier_rejected_total\{reason="loading"\} [1-9]')
        self.finish()
        reply = ask(self.port, "POST", "/v1/embeddings", b'{"input": "a"}')
        self.assertEqual(reply.status, 200)
        self.assertIn("\nespalier_ready 1\n", ask(self.port, "GET", "/metrics").body.decode())

    def test_probes_on_their_own_port(self):
        self.probes = free_port()
        self.start_loading("--admin-port", self.probes)
        wait_until(lambda: answers(self.probes), "the port answers")
        self.check_while_loading()
        self.assertEqual(ask(self.port, "GET", "/readyz").error()["code"], "model_loading")
        self.check_inference_while_loading()
        self.finish()
        self.assertEqual(ask(self.port, "POST", "/v1/embeddings", b'{"input": "a"}').status, 200)
        self.assertEqual(ask(self.port, "GET", "/readyz").status, 404)

    def test_a_signal_while_loading_ends_it_at_once(self):
        process = self.start_loading()
        wait_until(lambda: answers(self.port), "the port answers")
        process.terminate()
        self.assertEqual(process.wait(espalier_server.time_limit(10)), 128 + 15)

    def test_a_failure_while_loading_ends_it_with_the_reason(self):
        os.remove(os.path.join(self.model, "tokenizer.json"))
        started = time.monotonic()
        done = espalier_server.run_espalier("serve", "--port", 0, "--model", self.model)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tokenizer.json", done.stderr)
        self.assertLess(time.monotonic() - started, espalier_server.time_limit(10))


class WarmUpTest(ModelCopy):
    def spoil(self, name, value):
        path = os.path.join(self.model, "model.safetensors")
        with open(path, "rb") as file:
            data = bytearray(file.read())
        length, = struct.unpack("<Q", data[:8])
        tensor = json.loads(data[8:8 + length])[name]
        begin, end = (8 + length + offset for offset in tensor["data_offsets"])
        bits = np.array([value], np.float32).view(np.uint32) >> 16
        self.assertEqual(tensor["dtype"], "BF16")
        data[begin:end] = bits.astype("<u2").tobytes() * ((end - begin) // 2)
        with open(path, "wb") as file:
            file.write(data)

    def test_each_model_is_warmed_up_and_timed(self):
        server = Server("--model", "a=" + MODEL, "--model", "b=" + MODEL, model=None)
        self.addCleanup(server.kill)
        for name in "ab":
            self.assertRegex(server.log_text(), rf"{name} has been warmed up in \d+\.\d\d s")
            self.assertEqual(server.metric(f'espalier_batches_total{{model="{name}"}}'), 0)

    def test_weights_that_give_no_numbers_are_refused(self):
        for value in (np.nan, np.inf, 3e38):
            with self.subTest(value):
                self.spoil("model.norm.weight", value)
                done = espalier_server.run_espalier("serve", "--port", 0, "--model", "bad=" + self.model)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, "bad is not served, because its first pass failed: .*not finite")


if __name__ == "__main__":
    unittest.main()
