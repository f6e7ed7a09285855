"""The bundled model's golden outputs (golden.json: a float32 reference forward) through HTTP, in all three
dedup modes, in every number format, by every backend, alone and in one request."""

import base64
import unittest

import numpy as np

from espalier_server import ServerTest, golden


def cosines(a, b):
    """Row by row, in float64: 1 - 1e-5 is near float32's rounding."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


class GoldenOutputs:
    """The tests, run by one class for each mode, number format and backend."""

    cosine_min = 0.99999
    score_tolerance = 1e-4

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.entries = golden()["embeddings"]
        cls.expected = np.array([entry["embedding"] for entry in cls.entries])
        # An empty `input` is refused, so that entry is asked for by its token ids alone.
        cls.texts = [i for i, entry in enumerate(cls.entries) if entry["input"]]
        cls.reranks = golden()["rerank"]  # one has an empty query

    def assert_golden(self, embeddings, which):
        self.assertEqual(len(embeddings), len(which))
        for index, cosine in zip(which, cosines(embeddings, self.expected[which])):
            self.assertGreater(cosine, self.cosine_min, self.entries[index]["input"])

    def test_texts_in_one_request(self):
        self.assert_golden(self.server.embed([self.entries[i]["input"] for i in self.texts]), self.texts)

    def test_each_text_alone(self):
        for i in self.texts:
            self.assert_golden(self.server.embed(self.entries[i]["input"]), [i])

    def test_texts_with_the_prompt_put_before_them_by_the_server(self):
        prompted = [i for i in self.texts if self.entries[i]["prompt_name"]]
        self.assertEqual(len(prompted), 3)  # one holds <think>, an added token
        texts = [self.entries[i]["text"] for i in prompted]
        self.assert_golden(self.server.embed(texts, prompt_name="query"), prompted)

    def test_token_ids_in_one_request(self):
        self.assert_golden(self.server.embed([entry["ids"] for entry in self.entries]), range(len(self.entries)))

    def test_token_ids_give_the_same_vectors_as_the_text(self):
        from_text = self.server.embed([self.entries[i]["input"] for i in self.texts])
        from_ids = self.server.embed([self.entries[i]["ids"] for i in self.texts])
        np.testing.assert_array_equal(from_text, from_ids)

    def test_base64_is_little_endian_float32(self):
        reply = self.server.post("/v1/embeddings", {"input": [self.entries[i]["input"] for i in self.texts],
                                                    "encoding_format": "base64"})
        vectors = [np.frombuffer(base64.b64decode(entry["embedding"], validate=True), "<f4")
                   for entry in reply.json()["data"]]
        self.assert_golden(vectors, self.texts)

    def test_rerank_scores_one_request_each(self):
        for entry in self.reranks:
            scores = self.server.rerank(entry["query"], [entry["document"]], instruction=entry["instruction"])
            self.assertAlmostEqual(scores[0], entry["score"], delta=self.score_tolerance, msg=entry["query"])

    def test_rerank_scores_among_other_documents_and_with_the_default_instruction(self):
        documents = [entry["document"] for entry in self.reranks]
        for i, entry in enumerate(self.reranks):
            scores = self.server.rerank(entry["query"], documents)
            self.assertAlmostEqual(scores[i], entry["score"], delta=self.score_tolerance, msg=entry["query"])


class TrieTest(GoldenOutputs, ServerTest):
    options = ("--dedup", "trie")


class RadixMlpTest(GoldenOutputs, ServerTest):
    options = ("--dedup", "radixmlp")


class OffTest(GoldenOutputs, ServerTest):
    options = ("--dedup", "off")


class SmallBatchesTest(GoldenOutputs, ServerTest):
    """Requests are split over batches and put together again; the longest text runs alone."""
    options = ("--max-batch-tokens", "64")


class OpenBlasTest(GoldenOutputs, ServerTest):
    options = ("--gemm", "openblas")


class Bf16Test(GoldenOutputs, ServerTest):
    options = ("--dtype", "bf16")
    cosine_min = 0.999
    score_tolerance = 0.02


class Int8Test(GoldenOutputs, ServerTest):
    options = ("--dtype", "int8")
    cosine_min = 0.99
    score_tolerance = 0.1


if __name__ == "__main__":
    unittest.main()
