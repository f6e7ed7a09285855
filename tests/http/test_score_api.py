"""/score and /v1/score, and the rerank routes' other forms: the same scores as /v1/rerank."""

import unittest

import numpy as np

from espalier_server import ServerTest, tokenize

QUERY = "What is the capital of China?"
OTHER = "What pulls things down?"
DOCUMENTS = ["Gravity is a force that attracts two bodies towards each other.", "The capital of China is Beijing.",
             "", "naïve — 中国的首都是北京 👍", "salt"]
RERANK_PATHS = ("/rerank", "/v2/rerank", "/reranking")


def without_ids(answer):
    return {key: value for key, value in answer.items() if key not in ("id", "created")}


class ScoreTest(ServerTest):
    def score(self, **fields):
        reply = self.server.post("/v1/score", fields)
        self.assertEqual(reply.status, 200, reply)
        answer = reply.json()
        self.assertEqual([entry["index"] for entry in answer["data"]], list(range(len(answer["data"]))))
        return np.array([entry["score"] for entry in answer["data"]])

    def test_one_against_many(self):
        expected = self.server.rerank(QUERY, DOCUMENTS)
        np.testing.assert_array_equal(self.score(text_1=QUERY, text_2=DOCUMENTS), expected)
        np.testing.assert_array_equal(self.score(queries=[QUERY], documents=DOCUMENTS), expected)
        np.testing.assert_allclose(self.score(text_1=QUERY, text_2=DOCUMENTS[1]), expected[1:2], atol=1e-6)

    def test_pairs(self):
        queries = [QUERY, OTHER, QUERY, OTHER, QUERY]
        scores = self.score(text_1=queries, text_2=DOCUMENTS)
        expected = np.where([query == QUERY for query in queries], self.server.rerank(QUERY, DOCUMENTS),
                            self.server.rerank(OTHER, DOCUMENTS))
        np.testing.assert_allclose(scores, expected, atol=1e-5)

    def test_an_instruction_is_reranks(self):
        np.testing.assert_array_equal(self.score(text_1=QUERY, text_2=DOCUMENTS, instruction="Find the opposite"),
                                      self.server.rerank(QUERY, DOCUMENTS, instruction="Find the opposite"))

    def test_the_answers_shape_and_usage(self):
        answer = self.server.post("/score", {"text_1": QUERY, "text_2": DOCUMENTS}).json()
        self.assertEqual(set(answer), {"id", "object", "created", "model", "data", "usage"})
        usage = self.server.post("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS}).json()["usage"]
        self.assertEqual(answer["usage"], {**usage, "completion_tokens": 0})
        self.assertEqual(without_ids(self.server.post("/v1/score", {"text_1": QUERY, "text_2": DOCUMENTS}).json()),
                         without_ids(answer))

    def test_errors_name_what_was_sent(self):
        for fields, param in (({"text_1": QUERY}, "text_2"), ({"text_1": [QUERY, OTHER], "text_2": DOCUMENTS}, "text_1"),
                              ({"queries": QUERY}, "documents"), ({"text_1": QUERY, "documents": DOCUMENTS}, "text_1"),
                              ({"text_1": QUERY, "text_2": [None]}, "text_2[0]"),
                              ({"text_1": QUERY, "text_2": "a", "truncation_side": "left"}, "truncation_side"),
                              ({"text_1": QUERY, "text_2": "a", "truncate": "START"}, "truncate"),
                              ({"text_1": QUERY, "text_2": "a", "truncate_prompt_tokens": 3}, "truncate_prompt_tokens"),
                              ({"text_1": QUERY, "text_2": "salt " * 3000, "truncate": False}, "text_2"),
                              ({"text_1": ["a", "salt " * 3000], "text_2": ["a", "b"]}, "text_1[1]"),
                              ({"text_1": QUERY, "text_2": "a", "prompt_name": "query"}, "prompt_name")):
            with self.subTest(fields=str(fields)[:80]):
                self.assert_error(self.server.post("/score", fields), 400, param)


class RerankFormsTest(ServerTest):
    def post(self, **fields):
        reply = self.server.post("/rerank", {"query": QUERY, **fields})
        self.assertEqual(reply.status, 200, reply)
        return reply

    def test_aliases_answer_as_v1_rerank_does(self):
        body = {"query": QUERY, "documents": DOCUMENTS, "top_n": 3, "return_documents": True}
        expected = without_ids(self.server.post("/v1/rerank", body).json())
        for path in RERANK_PATHS:
            self.assertEqual(without_ids(self.server.post(path, body).json()), expected, path)

    def test_raw_scores_are_the_logits(self):
        scores = self.post(documents=DOCUMENTS).scores()
        logits = self.post(documents=DOCUMENTS, raw_scores=True).scores()
        np.testing.assert_allclose(np.log(scores / (1 - scores)), logits, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(1 / (1 + np.exp(-logits)), scores, atol=1e-6)

    def test_teis_form(self):
        scores = self.post(documents=DOCUMENTS).scores()
        ranked = self.post(texts=DOCUMENTS).json()
        self.assertEqual([entry["index"] for entry in ranked], list(np.argsort(-scores, kind="stable")))
        for entry in ranked:
            self.assertEqual(set(entry), {"index", "score"})
            self.assertEqual(entry["score"], scores[entry["index"]])
        for entry in self.post(texts=DOCUMENTS, return_text=True).json():
            self.assertEqual(entry["text"], DOCUMENTS[entry["index"]])
        raw = {entry["index"]: entry["score"] for entry in self.post(texts=DOCUMENTS, raw_scores=True).json()}
        logits = self.post(documents=DOCUMENTS, raw_scores=True).scores()
        self.assertEqual([raw[i] for i in range(len(DOCUMENTS))], list(logits))

    def test_teis_errors(self):
        for fields, status, kind in (({"texts": []}, 400, "Empty"), ({"texts": [5]}, 422, "Validation"),
                                     ({"texts": ["a"] * 2049}, 413, "Validation")):
            reply = self.server.post("/rerank", {"query": QUERY, **fields})
            self.assertEqual((reply.status, reply.json()["error_type"]), (status, kind))

    def test_rank_fields_make_the_text(self):
        objects = [{"title": "Gravity", "body": "pulls"}, {"title": "China", "body": "Beijing", "year": 5}, {"body": "x"}]
        scores = self.post(documents=objects, rank_fields=["title", "body", "year"]).scores()
        np.testing.assert_array_equal(scores, self.server.rerank(QUERY, ["Gravity\npulls", "China\nBeijing\n5", "x"]))

    def test_many_rank_fields_are_refused_at_once(self):
        names = [f"f{i}" for i in range(100_000)]
        document = {name: "a" for name in names}
        reply = self.server.post("/rerank", {"query": QUERY, "documents": [document], "rank_fields": names})
        self.assert_error(reply, 400, "rank_fields")
        repeated = self.post(documents=[{"a": "x" * 10_000}], rank_fields=["a"] * 100_000, return_documents=True)
        self.assertEqual(repeated.json()["results"][0]["document"]["text"], "x" * 10_000)

    def test_max_tokens_per_doc_cuts_documents(self):
        long = "5 mail boats came in winter " * 40  # "5" takes no space from the template
        ids = tokenize([long], add_special_tokens=False)[0]
        full = self.post(documents=[long]).json()["usage"]["prompt_tokens"]
        for tokens in (1, 7, 50):
            fields = {"documents": [long, "salt"], "max_tokens_per_doc": tokens}
            both = self.post(**fields)
            one = self.post(documents=[long], max_tokens_per_doc=tokens).json()["usage"]["prompt_tokens"]
            self.assertEqual(full - one, len(ids) - tokens)
            head = self.server.post("/decode", {"ids": ids[:tokens]}).json()[0]
            np.testing.assert_allclose(both.scores(), self.server.rerank(QUERY, [head, "salt"]), atol=1e-5)
        self.assertEqual(self.post(documents=[long], max_tokens_per_doc=10**6).json()["usage"]["prompt_tokens"], full)

    def test_new_rows_are_fewer_than_tokens(self):
        reply = self.post(documents=DOCUMENTS)
        tokens, rows = (int(reply.headers[name]) for name in ("x-espalier-tokens", "x-espalier-new-rows"))
        self.assertEqual(tokens, reply.json()["usage"]["prompt_tokens"])
        self.assertLess(rows, tokens / 2)

    def test_the_trie_of_a_request_adds_up(self):
        for path, body in (("/rerank", {"query": QUERY, "documents": DOCUMENTS}),
                           ("/score", {"text_1": QUERY, "text_2": DOCUMENTS}),
                           ("/v1/embeddings", {"input": DOCUMENTS[:2] + DOCUMENTS[3:]})):
            reply = self.server.post(path, {**body, "return_trie": True})
            trie = reply.json()["trie"]
            self.assertEqual(trie["tokens"], reply.json()["usage"]["prompt_tokens"])
            self.assertEqual(trie["rows"], sum(node["tokens"] for node in trie["nodes"]))
            self.assertEqual(trie["rows"], int(reply.headers["x-espalier-new-rows"]))
            self.assertNotIn("trie", self.server.post(path, body).json())


if __name__ == "__main__":
    unittest.main()
