"""Several models in one server: `model` picks one on every route, what is missing or impossible is said in each
API's form, figures are told apart by model, and under load the models take turns."""

import json
import os
import shutil
import tempfile
import threading
import time
import unittest
import urllib.parse

import numpy as np

from espalier_server import MODEL, EspalierTest, random_inputs, run_espalier, time_limit, wait_until
from test_random_models import HIDDEN as OTHER_HIDDEN, write_model

QUERY, DOCUMENTS = "a web server", ["nginx: web server", "tiger: a large cat"]
RERANK_ROUTES = ("/v1/rerank", "/v2/rerank", "/rerank", "/reranking")


def copy_of_mini(folder, without=(), **config):
    """The bundled model without some of its files, and with other settings."""
    shutil.copytree(MODEL, folder, ignore=shutil.ignore_patterns("training", *without))
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        settings = json.load(file) | config
    with open(path, "w", encoding="utf-8") as file:
        json.dump(settings, file)
    return folder


def random_model(folder):
    os.mkdir(folder)
    write_model(folder, seed=5)
    return folder


def make_models(parent):
    """Folders: `words` embeds alone, `ranker` was made to rerank, `other` does both and has another width."""
    return {"words": copy_of_mini(os.path.join(parent, "words"), ("1_LogitScore",), tie_word_embeddings=False),
            "ranker": copy_of_mini(os.path.join(parent, "ranker"),
                                   ("modules.json", "config_sentence_transformers.json", "1_Pooling", "1_LogitScore"),
                                   classifier_from_token=["no", "yes"]),
            "other": random_model(os.path.join(parent, "other"))}


class SeveralModelsTest(EspalierTest):
    names = ()
    options = ()

    @classmethod
    def setUpClass(cls):
        parent = tempfile.TemporaryDirectory()
        cls.addClassCleanup(parent.cleanup)
        cls.folders = make_models(parent.name)
        given = [part for name in cls.names for part in ("--model", f"{name}={cls.folders[name]}")]
        cls.server = cls.start(*given, *cls.options, model=None)

    def tei_error(self, reply, status, message):
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(reply.json()["error_type"], "Validation")
        self.assertRegex(reply.json()["error"], message)


class EmbeddingAndRerankTest(SeveralModelsTest):
    """The usual pair: whatever clients call their model, each route has one that can."""

    names = ("words", "ranker")

    def test_every_route_takes_the_model_that_was_made_for_it(self):
        for model in ({}, {"model": "text-embedding-3-small"}, {"model": None}):
            for path, body in (("/v1/embeddings", {"input": "tiger"}), ("/embeddings", {"content": "tiger"}),
                               ("/v2/embed", {"texts": ["tiger"], "input_type": "search_query",
                                              "embedding_types": ["float"]}),
                               ("/v1/embed", {"texts": ["tiger"]}), ("/embed", {"inputs": "tiger"}),
                               ("/embed_all", {"inputs": "tiger"}),
                               ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}}),
                               ("/tokenize", {"inputs": "tiger"}), ("/decode", {"ids": [1, 2]})):
                reply = self.server.post(path, body | model)
                self.assertEqual(reply.status, 200, reply)
                self.assertEqual(reply.headers["x-espalier-model"], "words", path)
            for path in RERANK_ROUTES:
                reply = self.server.post(path, {"query": QUERY, "documents": DOCUMENTS} | model)
                self.assertEqual(reply.json()["model"], "ranker", reply)
            for path in ("/v1/score", "/score"):
                reply = self.server.post(path, {"text_1": QUERY, "text_2": DOCUMENTS} | model)
                self.assertEqual(reply.json()["model"], "ranker", reply)
            reply = self.server.post("/rerank", {"query": QUERY, "texts": DOCUMENTS} | model)
            self.assertEqual(reply.headers["x-espalier-model"], "ranker", reply)

    def test_a_named_model_is_taken_on_every_route(self):
        for name in ("words", "openai/words", "Qwen/words"):
            reply = self.server.post("/v1/embeddings", {"input": "tiger", "model": name})
            self.assertEqual(reply.json()["model"], "words")
            for path, body in (("/v2/embed", {"texts": ["a"]}), ("/embed", {"inputs": "a"}),
                               ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}})):
                reply = self.server.post(path, body | {"model": name})
                self.assertEqual(reply.headers["x-espalier-model"], "words", reply)
        for name in ("ranker", "openai/ranker", "Qwen/ranker"):
            for path, body in (("/tokenize", {"inputs": "a"}), ("/decode", {"ids": [1]}),
                               ("/rerank", {"query": QUERY, "texts": DOCUMENTS}), ("/score", {"text_1": "a", "text_2": "b"}),
                               ("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS})):
                reply = self.server.post(path, body | {"model": name})
                self.assertEqual(reply.headers["x-espalier-model"], "ranker", reply)

    def test_models_do_what_they_are_listed_to_do(self):
        for model in self.server.get("/v1/models").json()["data"]:
            for job, path, body in (("embed", "/v1/embeddings", {"input": "a"}),
                                    ("rerank", "/v1/rerank", {"query": "a", "documents": ["b"]})):
                reply = self.server.post(path, body | {"model": model["id"]})
                if model[f"can_{job}"]:
                    self.assertEqual(reply.json()["model"], model["id"], reply)
                else:
                    self.assert_error(reply, 400, param="model", code=f"model_cannot_{job}")

    def test_a_named_model_that_cannot_rerank_says_so_and_which_can(self):
        for path in RERANK_ROUTES:
            reply = self.server.post(path, {"query": QUERY, "documents": DOCUMENTS, "model": "words"})
            self.assert_error(reply, 400, param="model", code="model_cannot_rerank",
                              message="`words` cannot rerank: .*`ranker`")
        reply = self.server.post("/rerank", {"query": QUERY, "texts": DOCUMENTS, "model": "words"})
        self.tei_error(reply, 422, "`words` cannot rerank: .*`ranker`")
        reply = self.server.post("/score", {"text_1": "a", "text_2": "b", "model": "words"})
        self.assert_error(reply, 400, param="model", code="model_cannot_rerank")

    def test_models_are_listed_and_described(self):
        listed = self.server.get("/v1/models").json()["data"]
        self.assertEqual([model["id"] for model in listed], ["words", "ranker"])
        self.assertEqual([model["can_rerank"] for model in listed], [False, True])
        self.assertEqual([model["made_for"] for model in listed], ["embedding", "rerank"])
        for model in listed:
            self.assertEqual((model["object"], model["dimensions"], model["max_model_len"]),
                             ("model", 256 if model["can_embed"] else None, 2048))
            self.assertEqual(self.server.get(f"/v1/models/{model['id']}").json(), model)
        self.assert_error(self.server.get("/v1/models/gpt-4"), 404, param="model", code="model_not_found",
                          message="`words` and `ranker`")
        info = self.server.get("/info").json()
        self.assertEqual(info["model_id"], "words")
        self.assertEqual([model["model_id"] for model in info["models"]], ["words", "ranker"])
        self.assertEqual(list(info["models"][0]["model_type"]), ["embedding"])

    def test_figures_are_told_apart(self):
        def metric(name, model):
            return self.server.metric(f'{name}{{model="{model}"}}')

        def figures():
            return {model["model"]: model for model in self.server.get("/stats").json()["models"]}

        before = {model: metric("espalier_tokens_total", model) for model in self.names}
        stats = figures()
        tokens = self.server.post("/v1/embeddings", {"input": "tiger"}).json()["usage"]["total_tokens"]
        self.assertEqual(metric("espalier_tokens_total", "words"), before["words"] + tokens)
        self.assertEqual(metric("espalier_tokens_total", "ranker"), before["ranker"])
        self.assertEqual(figures()["words"]["tokens_total"], stats["words"]["tokens_total"] + tokens)
        self.assertEqual(figures()["ranker"], stats["ranker"])
        for name in ("espalier_queue_tickets", "espalier_queue_tokens"):
            self.assertEqual(metric(name, "ranker"), 0)
        self.assertGreaterEqual(metric("espalier_queue_duration_seconds_count", "words"), 1)
        self.assertIn("espalier_worker_idle_seconds_total", self.server.metrics())

    def test_the_log_names_models(self):
        log = self.server.log_text()
        self.assertRegex(log, r"the model words embeds, and takes inputs of up to 2048 tokens")
        self.assertRegex(log, r"the model ranker (embeds and )?reranks,")
        self.assertRegex(log, r"the server of `words` and `ranker` is ready at http")
        self.server.rerank(QUERY, DOCUMENTS)
        deadline = time.monotonic() + time_limit(10)
        while "model=ranker" not in self.server.log_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertRegex(self.server.log_text(), r"route=/v1/rerank.* model=ranker")

    def test_answers_are_those_of_each_model_alone(self):
        alone = {name: self.start(model=self.folders[name]) for name in self.names}
        expected = alone["words"].embed(["tiger", "a large cat"])
        np.testing.assert_allclose(self.server.embed(["tiger", "a large cat"]), expected, atol=1e-6)
        expected = alone["ranker"].rerank(QUERY, DOCUMENTS)
        np.testing.assert_allclose(self.server.rerank(QUERY, DOCUMENTS), expected, atol=1e-6)


class ThreeModelsTest(SeveralModelsTest):
    names = ("words", "ranker", "other")
    options = ("--api-key", "secret")

    def post(self, path, body):
        return self.server.post(path, body, {"Authorization": "Bearer secret"})

    def test_where_several_could_it_is_404_naming_them(self):
        for model in ({}, {"model": "Words"}):
            for path in RERANK_ROUTES:
                reply = self.post(path, {"query": QUERY, "documents": DOCUMENTS} | model)
                self.assert_error(reply, 404, param="model", code="model_not_found", message="`ranker` and `other`")
            reply = self.post("/rerank", {"query": QUERY, "texts": DOCUMENTS} | model)
            self.tei_error(reply, 404, "`ranker` and `other`")

    def test_models_of_other_widths_do_not_mix(self):
        reply = self.post("/v1/embeddings", {"input": "tiger", "model": "other"})
        self.assertEqual((reply.json()["model"], reply.embeddings().shape[1]), ("other", OTHER_HIDDEN))
        reply = self.post("/v1/embeddings", {"input": "tiger", "model": "words"})
        self.assertEqual((reply.json()["model"], reply.embeddings().shape[1]), ("words", 256))
        reply = self.post("/v1/embeddings", {"input": "tiger", "model": "other", "dimensions": 256})
        self.assert_error(reply, 400, param="dimensions", message=str(OTHER_HIDDEN))

    def test_without_a_key_no_model_is_named(self):
        for reply in (self.server.get("/v1/models"), self.server.post("/v1/embeddings", {"input": "a"})):
            self.assert_error(reply, 401)
            self.assertNotIn(b"ranker", reply.body)


class StartTest(EspalierTest):
    def test_two_of_one_name_are_refused(self):
        done = run_espalier("serve", "--port", "0", "--model", MODEL, "--model", MODEL)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "another model is called espalier-mini.*--model NAME=")
        done = run_espalier("serve", "--port", "0", "--model", f"a={MODEL}", "--model", f"a={MODEL}/")
        self.assertRegex(done.stderr, "another model is called a")

    def test_a_name_that_requests_or_metrics_cannot_hold_is_refused(self):
        for name, why in (("x" * 129, "longer than 128 bytes"), ("a\nb", "control characters"),
                          (os.fsdecode(b"a\xffb"), "not UTF-8")):
            done = run_espalier("serve", "--port", "0", "--model", f"{name}={MODEL}")
            self.assertEqual(done.returncode, 1, done)
            self.assertRegex(done.stderr, f"the model's name (is|has) {why}; give it another one: --model NAME=MODEL")

    def test_names_may_hold_slashes_and_other_letters(self):
        names = ("org/a", "a", "größe 1%2F")
        server = self.start(*(part for number, name in enumerate(names) for part in
                              ("--model", f"{name}={MODEL}{'/' * number}")), model=None)
        for name in names:
            reply = server.post("/v1/embeddings", {"input": "x", "model": name})
            self.assertEqual(reply.json()["model"], name)
            for safe in ("", "/"):
                path = "/v1/models/" + urllib.parse.quote(name, safe=safe)
                self.assertEqual(server.get(path).json()["id"], name)
        for name in ("x/a", "A", "a/", "org//a", "", "/", "a" * 100_000):
            reply = server.post("/v1/embeddings", {"input": "x", "model": name})
            self.assert_error(reply, 404, param="model", code="model_not_found")
            self.assertLess(len(reply.body), 1000)
        for name in (5, True, [], {}, ["a"]):
            for path, body in (("/v1/embeddings", {"input": "x"}), ("/v1/rerank", {"query": "x", "documents": ["y"]}),
                               ("/v2/embed", {"texts": ["x"], "embedding_types": ["float"]}),
                               ("/v1/score", {"text_1": "x", "text_2": "y"})):
                self.assert_error(server.post(path, body | {"model": name}), 400, param="model", message="must be a string")
            for path in ("/embed", "/tokenize"):
                self.assertEqual(server.post(path, {"inputs": "x", "model": name}).status, 422)

    def test_an_alias_is_the_name_and_its_own_name_still_works(self):
        server = self.start("--model", f"a={MODEL}", "--model", f"b={MODEL}/", model=None)
        self.assertEqual([model["id"] for model in server.get("/v1/models").json()["data"]], ["a", "b"])
        reply = server.post("/v1/embeddings", {"input": "x", "model": "espalier-mini"})
        self.assert_error(reply, 404, param="model", message="`a` and `b`")  # both are
        server = self.start("--model", f"alias={MODEL}", model=None)
        self.assertEqual(server.get("/v1/models/espalier-mini").json()["id"], "alias")


class Clients:
    """Threads that send one request after another until the time is up."""

    def __init__(self, server):
        self.server = server
        self.replies = {}
        self._stop = threading.Event()
        self._threads = []

    def add(self, name, path, body, headers=None, pause=0):
        replies = self.replies.setdefault(name, [])

        def loop():
            while not self._stop.is_set():
                replies.append(self.server.post(path, body(), headers))
                self._stop.wait(pause)

        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        self._threads.append(thread)

    def run(self, seconds):
        time.sleep(seconds)
        self._stop.set()
        for thread in self._threads:
            thread.join(time_limit(120))


class FairTurnsTest(SeveralModelsTest):
    """Two models of different sizes under load from several clients: neither waits for more than two batches of the
    other, the one that runs when a request comes and the one that has been handed to the worker by then."""

    names = ("words", "other")
    keys = tuple(f"key-{number}" for number in range(8))
    options = ("--debug-endpoints", "--max-batch-tokens", "512", "--max-input-tokens", "512", "--admin-key", "admin",
               *(part for key in keys for part in ("--api-key", key)))
    WAITED_FOR_MAX = 2

    def batches(self, after=0):
        """Of the last batches, those after number `after`, by number; interludes too."""
        reply = self.server.request("GET", "/debug/timeline", headers={"Authorization": "Bearer admin"})
        events = [event for event in reply.json()["traceEvents"] if event.get("cat") == "pass"]
        batches = [{"number": event["args"]["batch"], "model": event["args"]["model"], "interlude": event["tid"] == 3,
                    "start": event["ts"] / 1e3, "end": (event["ts"] + event["dur"]) / 1e3} for event in events]
        return sorted((batch for batch in batches if batch["number"] > after), key=lambda batch: batch["number"])

    def last_batch(self):
        return max([batch["number"] for batch in self.batches()], default=0)

    def feed(self, clients, model, keys):
        def bulk(seed):
            rng = np.random.default_rng(seed)
            return lambda: {"input": random_inputs(16, 120, int(rng.integers(1 << 30))), "model": model}

        for number, key in enumerate(keys):
            clients.add(model, "/v1/embeddings", bulk(number), {"Authorization": f"Bearer {key}"})

    def assert_answered(self, replies, name):
        self.assertTrue(replies, name)
        for reply in replies:
            self.assertEqual(reply.status, 200, reply)
            self.assertEqual(reply.json()["model"], name)

    def test_a_queue_of_one_is_served_after_two_batches_of_the_other_at_most(self):
        for hungry, other in (("words", "other"), ("other", "words")):
            clients = Clients(self.server)
            self.feed(clients, hungry, self.keys)  # many clients against one
            wait_until(lambda: self.server.metric(f'espalier_queue_tickets{{model="{hungry}"}}') > 16, "the queue fills")
            before = self.last_batch()
            # Some twelve batches' worth: from its first batch to its last, there is an oldest that waits.
            reply = self.server.post("/v1/embeddings", {"input": random_inputs(48, 120, 77), "model": other},
                                     {"Authorization": f"Bearer {self.keys[0]}"})
            models = [batch["model"] for batch in self.batches(before) if not batch["interlude"]]
            clients.run(0)
            self.assert_answered([reply], other)
            self.assert_answered(clients.replies[hungry], hungry)
            own = [place for place, model in enumerate(models) if model == other]
            self.assertGreater(len(own), 8, models)
            waited_for = [after - place - 1 for place, after in zip(own, own[1:])]
            self.assertLessEqual(max(waited_for), self.WAITED_FOR_MAX, models)
            # It is told from a server that serves nobody else meanwhile.
            self.assertGreater(sum(waited_for), len(own) // 2, models)

    def test_a_single_input_for_one_waits_for_two_batches_of_the_other_at_most(self):
        for hungry, light in (("words", "other"), ("other", "words")):
            before = self.last_batch()
            clients = Clients(self.server)
            self.feed(clients, hungry, self.keys)
            clients.add(light, "/v1/embeddings", lambda light=light: {"input": "a tiger", "model": light},
                        {"Authorization": f"Bearer {self.keys[0]}"}, pause=0.02)
            clients.run(5)
            batches = self.batches(before)
            for name in (hungry, light):
                self.assert_answered(clients.replies[name], name)
            # One after the other: the replies are those of the batches, in this order. Only the last batches are kept.
            own = [batch for batch in batches if batch["model"] == light]
            replies = clients.replies[light][-len(own):]
            self.assertGreater(len(own), 5)
            others = [batch for batch in batches if batch["model"] == hungry and not batch["interlude"]]
            waited_for = []
            for batch, reply in zip(own, replies):
                taken = int(reply.headers["x-queue-time"]) + int(reply.headers["x-inference-time"])
                came = batch["end"] - taken + 2  # both are whole milliseconds
                waited_for.append(sum(came < one["end"] and one["start"] < batch["start"] for one in others))
            self.assertLessEqual(max(waited_for), self.WAITED_FOR_MAX, (hungry, waited_for))
            # The hungry model was served all the while. (Its batches may be shorter than what replies tell of their times.)
            between = [sum(one["number"] < other["number"] < next_one["number"] for other in others)
                       for one, next_one in zip(own, own[1:])]
            self.assertGreater(sum(between), len(own) // 2)


if __name__ == "__main__":
    unittest.main()
