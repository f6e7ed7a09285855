"""The routes of text-embeddings-inference, what every answer says it cost, and hostile bodies to all new routes."""

import json
import os
import tempfile
import unittest

import numpy as np

from espalier_server import (END_TOKEN, HIDDEN_SIZE, MAX_TOKENS, MODEL, VOCABULARY, EspalierTest, ServerTest,
                             distinct_prefixes, random_inputs, tokenize, wait_until)

TEXTS = ["a tree trained to grow flat", "naïve café — Ünïcödé", "今日は 👩‍👩‍👧 🇫🇷", "salt"]
COST_HEADERS = ("x-compute-type", "x-compute-time", "x-compute-characters", "x-compute-tokens", "x-total-time",
                "x-tokenization-time", "x-queue-time", "x-inference-time", "x-espalier-tokens", "x-espalier-new-rows",
                "x-request-id")


class TeiTest(EspalierTest):
    def assert_tei_error(self, reply, status, kind):
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(set(reply.json()), {"error", "error_type"})
        self.assertEqual(reply.json()["error_type"], kind)
        self.assertTrue(reply.json()["error"])


class TeiRoutesTest(ServerTest, TeiTest):
    def answer(self, path, **body):
        reply = self.server.post(path, body)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def test_embed_is_v1_embeddings(self):
        np.testing.assert_array_equal(np.float32(self.answer("/embed", inputs=TEXTS)), self.server.embed(TEXTS))
        np.testing.assert_array_equal(np.float32(self.answer("/embed", inputs="a")), self.server.embed("a"))
        np.testing.assert_array_equal(np.float32(self.answer("/embed", inputs=[5, 6])), self.server.embed([5, 6]))
        np.testing.assert_array_equal(np.float32(self.answer("/embed", inputs=TEXTS, normalize=False)),
                                      self.server.embed(TEXTS, normalized=False))
        np.testing.assert_array_equal(np.float32(self.answer("/embed", inputs=TEXTS, dimensions=7)),
                                      self.server.embed(TEXTS, dimensions=7))

    def test_embed_all_ends_in_the_embedding(self):
        states = self.answer("/embed_all", inputs=TEXTS)
        for text_states, ids, expected in zip(states, tokenize(TEXTS), self.server.embed(TEXTS)):
            text_states = np.float64(text_states)
            self.assertEqual(text_states.shape, (len(ids), HIDDEN_SIZE))
            last = text_states[-1] / np.linalg.norm(text_states[-1])
            np.testing.assert_allclose(last, expected, atol=1e-6)

    def test_every_row_of_embed_all_is_its_prefixs_last(self):
        ids = tokenize(TEXTS[:1])[0]
        rows = np.float32(self.answer("/embed_all", inputs=ids)[0])
        prefixes = [ids[:length] for length in range(1, len(ids) + 1)]
        # An end token is put behind each prefix: the row before it is the prefix's own last one.
        for prefix, states in zip(prefixes[:-1], self.answer("/embed_all", inputs=prefixes[:-1])):
            self.assertEqual(len(states), len(prefix) + 1)
            np.testing.assert_allclose(np.float32(states)[:-1], rows[:len(prefix)], atol=1e-4)

    def test_embed_all_is_bounded(self):
        tokens_max = 2**23 // HIDDEN_SIZE
        inputs = random_inputs(tokens_max // MAX_TOKENS + 1, MAX_TOKENS, seed=1)
        self.assert_tei_error(self.server.post("/embed_all", {"inputs": inputs}), 413, "Validation")

    def test_similarity_is_numpys_cosine(self):
        vectors = self.server.embed(TEXTS).astype(np.float64)
        cosines = self.answer("/similarity", inputs={"source_sentence": TEXTS[0], "sentences": TEXTS})
        np.testing.assert_allclose(cosines, vectors @ vectors[0], atol=1e-6)
        self.assertAlmostEqual(cosines[0], 1, places=6)
        objects = [{"text": text} for text in TEXTS]
        self.assertEqual(self.answer("/similarity", inputs={"source_sentence": TEXTS[0], "sentences": objects}), cosines)

    def test_tokenize_offsets_slice_the_bytes_and_decode_inverts(self):
        texts = [*TEXTS, "x <|im_end|> x", "  two  spaces\n", ""]
        answer = self.answer("/tokenize", inputs=texts)
        self.assertEqual([[token["id"] for token in tokens] for tokens in answer], tokenize(texts))
        for text, tokens in zip(texts, answer):
            data = text.encode()
            covered = 0
            for token in tokens[:-1]:
                self.assertFalse(token["special"])
                self.assertEqual(token["text"].encode(), data[token["start"]:token["stop"]])
                self.assertLessEqual(token["start"], covered)
                covered = max(covered, token["stop"])
            self.assertEqual(covered, len(data))
            self.assertEqual(tokens[-1], {"id": END_TOKEN, "text": "<|endoftext|>", "special": True, "start": None,
                                          "stop": None})
        ids = [[token["id"] for token in tokens] for tokens in answer]
        kept = self.answer("/decode", ids=ids, skip_special_tokens=False)
        self.assertEqual(kept, [text + "<|endoftext|>" for text in texts])
        plain = tokenize(TEXTS, add_special_tokens=False)
        self.assertEqual(self.answer("/decode", ids=plain), TEXTS)
        self.assertEqual(self.answer("/decode", ids=plain[0]), TEXTS[:1])
        without = self.answer("/tokenize", inputs=TEXTS[0], add_special_tokens=False)
        self.assertEqual([token["id"] for token in without[0]], plain[0])

    def test_what_tokenize_and_decode_make_is_bounded(self):
        self.assert_tei_error(self.server.post("/tokenize", {"inputs": "a" * (2**20 + 1)}), 413, "Validation")
        sizes = [len(text) for text in self.answer("/decode", ids=[[i] for i in range(2048)])]
        longest = int(np.argmax(sizes))
        ids = [longest] * (2**24 // sizes[longest] + 1)
        self.assert_tei_error(self.server.post("/decode", {"ids": ids}), 413, "Validation")

    def test_tokenizing_counts_for_nothing_computed(self):
        name = "espalier_inference_duration_seconds_count"
        before = self.server.metric(name)
        self.answer("/tokenize", inputs="a")
        self.answer("/decode", ids=[5])
        self.answer("/embed", inputs="a")
        wait_until(lambda: self.server.metric(name) == before + 1, "one request computed")

    def test_info(self):
        info = self.server.get("/info").json()
        self.assertEqual((info["model_id"], info["max_input_length"], info["max_client_batch_size"]),
                         ("espalier-mini", MAX_TOKENS, 2048))
        self.assertEqual(info["model_type"]["embedding"], {"pooling": "last_token"})
        self.assertIn("reranker", info["model_type"])
        for field in ("model_dtype", "version", "max_concurrent_requests", "max_batch_tokens", "tokenization_workers"):
            self.assertTrue(info[field], field)

    def test_errors_have_teis_statuses(self):
        long = "salt " * 3000
        for path, body, status, kind in (("/embed", {"inputs": ""}, 400, "Empty"), ("/embed", {"inputs": []}, 400, "Empty"),
                                         ("/embed", {"inputs": ["a", ""]}, 400, "Empty"),
                                         ("/embed_all", {"inputs": [[]]}, 400, "Empty"),
                                         ("/similarity", {"inputs": {"source_sentence": "", "sentences": ["a"]}}, 400,
                                          "Empty"),
                                         ("/embed", {}, 422, "Validation"), ("/embed", {"inputs": 5}, 422, "Validation"),
                                         ("/embed", {"inputs": [VOCABULARY]}, 422, "Validation"),
                                         ("/embed", {"inputs": "a", "dimensions": 257}, 422, "Validation"),
                                         ("/embed", {"inputs": long, "truncate": False}, 413, "Validation"),
                                         ("/embed", {"inputs": ["a"] * 2049}, 413, "Validation"),
                                         ("/tokenize", {"inputs": [1]}, 422, "Validation"),
                                         ("/decode", {"ids": "a"}, 422, "Validation"),
                                         ("/similarity", {"inputs": "a"}, 422, "Validation")):
            with self.subTest(path=path, body=str(body)[:60]):
                reply = self.server.post(path, body)
                self.assert_tei_error(reply, status, kind)
                for header in COST_HEADERS:
                    self.assertIn(header, reply.headers)
        self.assert_tei_error(self.server.post("/embed", b"{"), 422, "Validation")
        self.assert_tei_error(self.server.request("POST", "/embed", b"{}", {"Content-Type": "text/plain"}), 415,
                              "Validation")
        self.assert_tei_error(self.server.request("POST", "/embed", b"{}", {"Content-Encoding": "zstd"}), 415,
                              "Validation")
        self.assert_tei_error(self.server.request("POST", "/embed", b"{}", {"Content-Encoding": "gzip"}), 422,
                              "Validation")


class CostTest(ServerTest):
    # Time for what two clients send at once to go into one batch.
    options = ("--batch-window-ms", "300")

    def test_headers_tell_the_cost_and_the_id(self):
        reply = self.server.post("/v1/embeddings", {"input": TEXTS}, {"X-Request-Id": "mine-7"})
        ids = tokenize(TEXTS)
        self.assertEqual(reply.headers["x-request-id"], "mine-7")
        self.assertEqual(reply.headers["x-espalier-tokens"], str(sum(map(len, ids))))
        self.assertEqual(reply.headers["x-espalier-new-rows"], str(distinct_prefixes(ids)))
        self.assertEqual(reply.headers["x-compute-characters"], str(sum(map(len, TEXTS))))
        for header in COST_HEADERS:
            self.assertIn(header, reply.headers)

    def test_an_unsound_id_is_replaced(self):
        for sent in ("a b", "x" * 129, 'a"b', "a\\b", "é".encode().decode("latin-1")):
            reply = self.server.post("/embed", {"inputs": ""}, {"X-Request-Id": sent})
            self.assertRegex(reply.headers["x-request-id"], "^[0-9a-f]{32}$")

    def test_what_two_requests_share_is_paid_once(self):
        shared = random_inputs(1, 200, seed=2)[0][:-1]
        inputs = [[*shared, 5, END_TOKEN], [*shared, 6, END_TOKEN]]
        replies = [self.server.in_background("/embed", {"inputs": [ids]}) for ids in inputs]
        rows = sorted(int(reply.result().headers["x-espalier-new-rows"]) for reply in replies)
        self.assertEqual(rows, [2, 201])
        self.assertEqual(sum(rows), distinct_prefixes(inputs))


class LimitsTest(TeiTest):
    def test_inputs_and_tokens_of_one_request(self):
        server = self.start("--max-request-inputs", "3", "--max-request-tokens", "300")
        bodies = {"/v1/embeddings": lambda texts: {"input": texts}, "/v2/embed": lambda texts: {"texts": texts},
                  "/v1/rerank": lambda texts: {"query": "a", "documents": texts},
                  "/score": lambda texts: {"text_1": "a", "text_2": texts}}
        for path, body in bodies.items():
            self.assertEqual(server.post(path, body(["a"] * 3)).status, 200)
            reply = server.post(path, body(["a"] * 4))
            self.assertEqual((reply.status, reply.error()["code"]), (400, "too_many_inputs"))
            reply = server.post(path, body(["salt " * 150] * 3))
            self.assertEqual((reply.status, reply.error()["code"]), (400, "request_too_large"))
            self.assertRegex(reply.error()["message"], "300")
        for path in ("/embed", "/embed_all"):
            self.assert_tei_error(server.post(path, {"inputs": ["a"] * 4}), 413, "Validation")
            self.assert_tei_error(server.post(path, {"inputs": ["salt " * 150] * 3}), 413, "Validation")
        sentences = {"source_sentence": "a", "sentences": ["b"] * 3}  # four inputs
        self.assert_tei_error(server.post("/similarity", {"inputs": sentences}), 413, "Validation")
        self.assert_tei_error(server.post("/tokenize", {"inputs": ["a"] * 4}), 413, "Validation")
        self.assert_tei_error(server.post("/decode", {"ids": [[5]] * 4}), 413, "Validation")
        self.assertEqual(server.get("/info").json()["max_client_batch_size"], 3)

    def test_what_the_queue_never_holds(self):
        server = self.start("--max-queue-tokens", "2500")
        reply = server.post("/v1/embeddings", {"input": ["salt " * 3000] * 2048})
        self.assert_error(reply, 400, "input", "request_too_large")
        self.assert_error(server.post("/score", {"text_1": ["salt " * 1500] * 3, "text_2": ["a"] * 3}), 400, "text_1",
                          "request_too_large")

    def test_bodies_that_are_too_large_are_told_so_in_the_routes_form(self):
        server = self.start("--max-body-mb", "1")
        body = json.dumps({"inputs": "salt " * 300_000}).encode()
        head = f"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.assert_tei_error(server.exchange((head % "/embed").encode()), 413, "Validation")
        self.assert_error(server.exchange((head % "/v2/embed").encode()), 413)

    def test_a_full_queue(self):
        server = self.start("--max-queue", "8", "--threads", "1")
        first = [server.in_background("/embed", {"inputs": random_inputs(8, MAX_TOKENS, seed=seed)}) for seed in range(4)]
        replies = [background.result() for background in first]
        refused = [reply for reply in replies if reply.status != 200]
        self.assertTrue(refused)
        for reply in refused:
            self.assert_tei_error(reply, 429, "Overloaded")
            self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)


class KeysTest(TeiTest):
    def test_keys_guard_the_new_routes_and_admins_the_debug_ones(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys", delete=False) as file:
            file.write("shop shop-secret\nops ops-secret admin\n")
        self.addCleanup(os.remove, file.name)
        server = self.start("--api-key-file", file.name, "--debug-endpoints")
        shop, ops = ({"Authorization": f"Bearer {key}-secret"} for key in ("shop", "ops"))
        for path in ("/embed", "/embed_all", "/similarity", "/tokenize", "/decode"):
            self.assert_tei_error(server.post(path, {"inputs": "a"}), 401, "Unauthorized")
        for path in ("/v1/embed", "/v2/embed", "/score", "/rerank", "/embeddings", "/v1/score", "/v2/rerank", "/reranking"):
            self.assert_error(server.post(path, {}), 401, code="invalid_api_key")
        for path in ("/info", "/stats", "/v1/models/espalier-mini"):
            self.assert_error(server.get(path), 401, code="invalid_api_key")
            self.assertEqual(server.request("GET", path, headers=shop).status, 200)
        for path in ("/debug/timeline", "/debug/trie", "/debug/trie.svg"):
            self.assert_error(server.get(path), 401, code="invalid_api_key")
            self.assert_error(server.request("GET", path, headers=shop), 403, code="admin_key_required")
            self.assertEqual(server.request("GET", path, headers=ops).status, 200)
        self.assertEqual(server.post("/embed", {"inputs": "a"}, ops).status, 200)


class ModelNameTest(EspalierTest):
    def test_a_name_that_needs_percent_encoding(self):
        with tempfile.TemporaryDirectory() as parent:
            folder = os.path.join(parent, "mini model%2F")
            os.mkdir(folder)
            for name in os.listdir(MODEL):
                os.symlink(os.path.abspath(os.path.join(MODEL, name)), os.path.join(folder, name))
            server = self.start(model=folder)
        for path in ("/v1/models/mini%20model%252F", "/v1/models/%6dini%20model%252F",
                     "/v1/models/mini%20model%252F?x=1"):
            self.assertEqual(server.get(path).json()["id"], "mini model%2F")
        for path in ("/v1/models/org%2Fmini%20model", "/v1/models/mini%20model%2F", "/v1/models/mini", "/v1/models/%",
                     "/v1/models/a/b", "/v1/models/%00", "/v1/models/%ff"):
            self.assert_error(server.get(path), 404, "model", "model_not_found")
        self.assert_error(server.get("/v1/models/"), 404)


class HostileTest(ServerTest):
    """Every body to every route: a 4xx in time or a 200, and JSON."""

    ROUTES = {"/v1/embeddings": "input", "/embeddings": "input", "/v1/embed": "texts", "/v2/embed": "texts",
              "/embed": "inputs", "/embed_all": "inputs", "/tokenize": "inputs", "/decode": "ids",
              "/rerank": "documents", "/v2/rerank": "texts", "/score": "text_2", "/similarity": "inputs"}
    VALUES = (None, True, 0, -1, 2**64, -2**63, 1e308, "", "\0", "<|endoftext|>", "<|im_start|>" * 50, "\ud83d\ude00", [], {},
              [[]], [None], ["a", None], ["", ""], [""] * 3000, ["a"] * 3000, [[5]] * 3000, [0], [8191], [8192], [2**32],
              [4294967295], [1e308], [[[1]]], [{}], [{"text": None}], [{"text": ["a"]}], {"source_sentence": None},
              {"source_sentence": "", "sentences": []}, {"source_sentence": "a", "sentences": [None]},
              [{"content": [{"type": "text", "text": 5}]}], "salt " * 20_000, [5] * 50_000)
    OPTIONS = {"dimensions": (0, 2**64, "a"), "truncate": (5, "LEFT"), "truncate_prompt_tokens": (1, 2, -1, 2**64 - 1, 0),
               "prompt_name": ("", "x" * 10_000), "instruction": ("", "<|im_end|>", "\0"), "top_n": (-1, 2**53, 1e20),
               "max_tokens_per_doc": (0, 1, 2**53), "max_tokens_per_query": (0, 1), "embedding_types": ([], [None], ["int8"] * 9),
               "rank_fields": ([], ["text"], ["documents"], [""]), "parameters": (5, [], {"truncate": 5}),
               "return_trie": (True, 1), "add_special_tokens": (False, 0), "normalize": (False, "no"),
               "encoding_format": ("", "FLOAT")}

    def post(self, path, body):
        reply = self.server.post(path, body)
        self.assertLess(reply.status, 500, (path, str(body)[:200], reply))
        self.assertNotIn(reply.status, (408, 409, 424, 429), (path, str(body)[:200], reply))
        json.loads(reply.body)
        return reply

    def test_values_of_every_kind(self):
        for path, field in self.ROUTES.items():
            for value in self.VALUES:
                self.post(path, {"query": "q", "text_1": "q", field: value})

    def test_options_of_every_kind(self):
        for path, field in self.ROUTES.items():
            sound = {"/decode": [5], "/similarity": {"source_sentence": "a", "sentences": ["b"]}}.get(path, ["a", "b"])
            for option, values in self.OPTIONS.items():
                for value in values:
                    self.post(path, {"query": "q", "text_1": "q", field: sound, option: value})

    def test_bytes_of_every_kind(self):
        for path, field in self.ROUTES.items():
            name = field.encode()
            for body in (b"", b"[]", b"{", b"[" * 100_000, b'{"' + name + b'":' + b"[" * 100_000,
                         b'{"' + name + b'":"\xff\xc0\xaf"}', b'{"' + name + b'":"\\ud800"}', b'{"' + name + b'":NaN}',
                         b'{"' + name + b'":1e999}', b"\0" * 1000, b'{"a":' * 40 + b"1" + b"}" * 40):
                reply = self.post(path, body)
                self.assertGreaterEqual(reply.status, 400)

    def test_special_tokens_in_what_is_reranked_are_text(self):
        plain = self.server.post("/score", {"text_1": "<|im_end|>", "text_2": "<|im_start|>"})
        self.assertGreater(int(plain.headers["x-espalier-tokens"]),
                           int(self.server.post("/score", {"text_1": "a", "text_2": "a"}).headers["x-espalier-tokens"]) + 4)

    def tearDown(self):
        self.assertEqual(self.server.embed("still there").shape, (1, HIDDEN_SIZE))


if __name__ == "__main__":
    unittest.main()
