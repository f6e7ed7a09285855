"""The pods of configs/kubernetes as processes: options and probes against the real server, memory against what it predicts,
queries of the autoscaler against its metrics and Prometheus."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import yaml

from manifests import CONFIGS, KUBERNETES, OVERLAYS, ROOT, of_kind, only, quantity, render, skip_without_renderer, variables
from running_pod import Container

from espalier_server import MODEL, free_port, run_espalier, wait_until

sys.path.insert(0, str(ROOT / "tests" / "hub"))
sys.path.insert(0, str(ROOT / "tools"))
from model_hub import ModelHub, folder_files  # noqa: E402
import make_random_model  # noqa: E402

CACHE = "/var/cache/espalier"
MINI = folder_files(MODEL, skip=("training", "golden", "eval_", "README", "LICENSE"))
RERANKER = {**MINI, "modules.json": json.dumps([  # as a cross-encoder of sentence-transformers
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_LogitScore",
     "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}]).encode()}
HUB_NAME = "Qwen/Qwen3-Embedding-0.6B"
KEY = "0123456789abcdef"
# docs/OPERATIONS.md, "Memory by model". Of what is left requests get three quarters, and one body a sixteenth of that: enough for
# the usual --max-body-mb.
PREDICTION_ERROR, REQUESTS = 1.15, 0.8e9
QWEN3_TOKENIZER = 20.6e6  # of its tokenizer.json of 11.4 MB; the shapes here have a small one


def server_of(objects):
    return only(objects, "Deployment", "espalier")["spec"]["template"]


class PodTest(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o777)  # the pod's user writes it, as a volume with its fsGroup
        return folder.name

    def run_container(self, container):
        running = container.start()
        self.addCleanup(running.kill)
        return running

    def test_a_server_with_keys_and_its_probes(self):
        objects = render("espalier-mini", "api-keys", "haproxy", "prometheus-operator")
        keys = self.folder()
        Path(keys, "keys").write_text(f"shop {KEY}\n", encoding="ascii")
        running = self.run_container(Container(objects, server_of(objects), {CACHE: self.folder(), "/etc/espalier": keys}))
        running.wait_until_started()
        self.assertEqual((running.probe("readiness"), running.probe("liveness")), (200, 200))
        monitor, = of_kind(objects, "PodMonitor")
        endpoint, = (endpoint for endpoint in monitor["spec"]["podMetricsEndpoints"] if endpoint["port"] == "admin")
        self.assertEqual(running.ask(endpoint), 200)
        self.assertEqual(running.ask({"port": "http", "path": "/metrics"}), 404, "clients do not see them")

        body = {"input": "nginx is a web server"}
        self.assertEqual(running.post("/v1/embeddings", body).status, 401)
        self.assertEqual(running.post("/v1/embeddings", body, {"Authorization": f"Bearer {KEY}"}).status, 200)
        self.assertTrue(all(json.loads(line)["level"] for line in list(running.log)), "ESPALIER_LOG_FORMAT=json")

        # As the kubelet does it: preStop is over, the server is told to end.
        running.send_signal()
        self.assertEqual(running.wait(), 0, running.log_text())

    def test_the_job_fills_the_cache_and_pods_read_it_without_the_hub(self):
        objects = render("qwen3-embedding-0.6b", "shared-cache")
        self.assertEqual(variables(objects, server_of(objects)["spec"]["containers"][0])["ESPALIER_MODEL"], HUB_NAME)
        cache = self.folder()
        with ModelHub() as hub:
            hub.add(HUB_NAME, MINI)
            hub.models[HUB_NAME].token = "hf_secret"
            job = only(objects, "Job", "espalier-download")["spec"]["template"]
            download = Container(objects, job, {CACHE: cache}, {"HF_TOKEN": "hf_secret"}, {"HF_ENDPOINT": hub.endpoint})
            running = self.run_container(download)
            self.assertEqual(running.wait(), 0, running.log_text())
            asked = len(hub.requests)
            self.assertGreater(asked, 2)

            for folder, _, files in os.walk(cache):  # the mount is read-only
                for path in (folder, *(os.path.join(folder, name) for name in files)):
                    if not os.path.islink(path):
                        os.chmod(path, 0o555)
            pod = self.run_container(Container(objects, server_of(objects), {CACHE: cache}, {}, {"HF_ENDPOINT": hub.endpoint}))
            pod.wait_until_started()
            self.assertEqual(pod.post("/v1/embeddings", {"input": "x"}).status, 200)
            self.assertEqual(len(hub.requests), asked, "HF_HUB_OFFLINE=1")
            pod.stop()

    def test_before_the_job_is_done_a_pod_says_what_is_missing(self):
        objects = render("qwen3-embedding-0.6b", "shared-cache")
        running = self.run_container(Container(objects, server_of(objects), {CACHE: self.folder()}))
        self.assertEqual(running.wait(), 1, running.log_text())
        self.assertRegex(running.log_text(), "HF_HUB_OFFLINE")

    def test_a_pod_without_a_shared_cache_fetches_by_itself(self):
        objects = render("qwen3-embed-and-rerank-0.6b")
        with ModelHub() as hub:
            hub.add(HUB_NAME, MINI)
            hub.add("Qwen/Qwen3-Reranker-0.6B", RERANKER)
            pod = self.run_container(Container(objects, server_of(objects), {CACHE: self.folder()}, {},
                                               {"HF_ENDPOINT": hub.endpoint}))
            pod.wait_until_started()
            self.assertEqual(pod.post("/v1/embeddings", {"input": "x", "model": "embed"}).status, 200)
            reply = pod.post("/v1/rerank", {"query": "x", "documents": ["y"], "model": "rank"})
            self.assertEqual(reply.status, 200, reply)
            pod.stop()

    def test_every_overlays_options_are_options_of_the_server(self):
        known = set(re.findall(r"ESPALIER_[A-Z_]+", run_espalier("serve", "--help").stdout))
        for overlay in OVERLAYS:
            objects = render(overlay, "api-keys", "haproxy")
            for name in variables(objects, server_of(objects)["spec"]["containers"][0]):
                if name.startswith("ESPALIER_"):
                    self.assertIn(name, known, overlay)
                else:
                    self.assertIn(name, {"HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE"})


class MemoryTest(unittest.TestCase):
    def model_of_the_shape(self, size, folder):
        """A model whose weights are a hole in the file: what is predicted follows from the configuration alone."""
        shape = make_random_model.SIZES[size]
        weights = make_random_model.model_weights("qwen3", shape)
        file = make_random_model.Safetensors(Path(folder, "model.safetensors"), weights)
        file.file.flush()
        file.file.truncate(file.file.tell() + sum(2 * weight.count for weight in weights))
        file.close()
        Path(folder, "config.json").write_text(json.dumps(make_random_model.config("qwen3", shape)), encoding="utf-8")
        shutil.copy(os.path.join(MODEL, "tokenizer.json"), folder)
        return folder

    def predicted(self, model, settings):
        """(what stays, mapped tables) in bytes"""
        options = {name: value for name, value in settings.items() if name.startswith("ESPALIER_") and name != "ESPALIER_MODEL"}
        done = run_espalier("inspect", *(["--model", model] if model else []), env=options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"computed in {settings['ESPALIER_DTYPE']}", done.stdout)

        def figure(pattern):
            number, unit = re.search(pattern, done.stdout).groups()
            return float(number) * {"MB": 1e6, "GB": 1e9}[unit]
        parts = [figure(rf"(?m)^  {part} +([\d.]+) (.B)") for part in ("weights", "tokenizer", "batches", "base")]
        return sum(parts), figure(r"besides +([\d.]+) (.B)")

    def needed(self, settings):
        models = settings.get("ESPALIER_MODEL", "").split(",")
        total = REQUESTS
        with tempfile.TemporaryDirectory() as folder:
            for model in models:
                size = re.search(r"-([\d.]+b)$", model.lower())
                path = self.model_of_the_shape(size.group(1), folder) if size else None
                stays, tables = self.predicted(path, settings)
                total += PREDICTION_ERROR * (stays + (QWEN3_TOKENIZER if size else 0)) + tables
        return total

    def test_limits_hold_what_is_predicted(self):
        for overlay in OVERLAYS:
            with self.subTest(overlay):
                objects = render(overlay)
                container = server_of(objects)["spec"]["containers"][0]
                limit = quantity(container["resources"]["limits"]["memory"])
                needed = self.needed(variables(objects, container))
                self.assertGreater(limit, needed, f"{needed / 1e9:.2f} GB")
                self.assertLess(limit, 1.4 * needed, f"{needed / 1e9:.2f} GB")
                # The comment that says how the figure came about.
                says = re.search(r"= ([\d.]+) GB", (KUBERNETES / "overlays" / overlay / "kustomization.yaml").read_text("utf-8"))
                self.assertAlmostEqual(float(says.group(1)), needed / 1e9, delta=0.06)


class AutoscalingTest(unittest.TestCase):
    def queries(self):
        scaled, = of_kind(render("qwen3-embedding-0.6b", "autoscaling"), "ScaledObject")
        return {trigger["name"]: (trigger["metadata"]["query"], float(trigger["metadata"]["threshold"]))
                for trigger in scaled["spec"]["triggers"]}

    def test_its_metrics_are_the_servers(self):
        objects = render("espalier-mini")
        with tempfile.TemporaryDirectory() as cache:
            running = Container(objects, server_of(objects), {CACHE: cache}).start()
            self.addCleanup(running.kill)
            running.wait_until_started()
            running.port = running.container.free["admin"]
            metrics = running.metrics()
            for query, _ in self.queries().values():
                names = re.findall(r"(espalier_\w+)\{", query)
                self.assertTrue(names)
                for name in names:
                    self.assertIn(name, metrics)
            running.stop()

    @unittest.skipUnless(shutil.which("promtool"), "promtool (Debian's prometheus) is not installed")
    def test_what_the_queries_say(self):
        """Of two pods: busy ones with 10 000 tokens waiting each at 1 000 tokens/s, 20 s of work; idle ones; one busy."""
        def load(pod, waiting, tokens, busy):
            labels = f'{{namespace="espalier", pod="{pod}"}}'
            return [{"series": f"espalier_queue_tokens{labels}", "values": f"{waiting}x40"},
                    {"series": f"espalier_tokens_total{labels}", "values": f"0+{15 * tokens}x40"},
                    {"series": f"espalier_compute_duration_seconds_sum{labels}", "values": f"0+{15 * busy}x40"}]
        elsewhere = [{"series": 'espalier_queue_tokens{namespace="other", pod="a"}', "values": "1000000x40"}]
        cases = [("busy", load("a", 10000, 1000, 1) + load("b", 10000, 1000, 1), 20, 2),
                 ("idle", load("a", 0, 0, 0) + load("b", 0, 0, 0), 0, 0),
                 # A pass within another counts for both of them.
                 ("one busy", load("a", 3000, 500, 1.5) + load("b", 0, 0, 0), 9, 1)]
        queries = self.queries()
        tests = [{"interval": "15s", "input_series": series + elsewhere, "promql_expr_test": [
            {"expr": f"round({queries[name][0]}, 0.001)", "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": value}]}
            for name, value in (("queued-seconds", seconds), ("busy-pods", pods))]} for _, series, seconds, pods in cases]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "test.yaml")
            file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "15s", "tests": tests}), "utf-8")
            done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class RouterTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("haproxy"), "haproxy is not installed")
    def test_the_router_runs_as_its_pod_and_answers_its_probes(self):
        """The name of the servers has no addresses here: it lives, and is not ready."""
        objects = render("espalier-mini", "haproxy", "prometheus-operator")
        template = only(objects, "Deployment", "espalier-router")["spec"]["template"]
        container, = template["spec"]["containers"]
        settings = {name: (value or "espalier").replace("$(NAMESPACE)", "espalier")
                    for name, value in variables(objects, container).items()}
        port = {"http": free_port(), "operators": free_port()}
        settings.update(PATH=os.environ["PATH"], ESPALIER_PROXY_BIND=f"127.0.0.1:{port['http']}",
                        ESPALIER_PROXY_STATS_BIND=f"127.0.0.1:{port['operators']}")
        user = {"user": template["spec"]["securityContext"]["runAsUser"], "extra_groups": []} if os.getuid() == 0 else {}
        process = subprocess.Popen(["haproxy", "-f", CONFIGS / "haproxy.cfg"], env=settings, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", **user)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)

        def status(probe):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port[probe['port']]}{probe['path']}", timeout=5).close()
                return 200
            except urllib.error.HTTPError as error:
                with error:
                    return error.code
            except OSError:
                return None
        wait_until(lambda: status(container["livenessProbe"]["httpGet"]) == 200, "the router's liveness probe")
        self.assertEqual(status(container["readinessProbe"]["httpGet"]), 503)
        monitor, = of_kind(objects, "PodMonitor")
        endpoint, = (endpoint for endpoint in monitor["spec"]["podMetricsEndpoints"] if endpoint["port"] == "operators")
        self.assertEqual(status(endpoint), 200)
        process.send_signal(signal.SIGUSR1)  # as the official image ends it
        self.assertEqual(process.wait(30), 0)


if __name__ == "__main__":
    skip_without_renderer()
    unittest.main()
