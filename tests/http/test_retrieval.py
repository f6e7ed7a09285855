"""What the model is for: eval_wordnet.jsonl, 1 000 held-out queries that each rank 1 000 passages by cosine, as
models/espalier-mini/README.md reports it."""

import json
import os
import unittest

import numpy as np

from espalier_server import MODEL, ServerTest

INPUTS_PER_REQUEST = 250


class WordnetRetrieval:
    """The test, run by one class for each number format. The published figures are those of float32."""

    tolerance = 0.003

    def embed_all(self, texts, **fields):
        return np.concatenate([self.server.embed(texts[begin:begin + INPUTS_PER_REQUEST], **fields)
                               for begin in range(0, len(texts), INPUTS_PER_REQUEST)])

    def test_recall_and_reciprocal_rank_are_the_published_ones(self):
        with open(os.path.join(MODEL, "eval_wordnet.jsonl"), encoding="utf-8") as file:
            pairs = [json.loads(line) for line in file]
        self.assertEqual(len(pairs), 1000)
        queries = self.embed_all([pair["query"] for pair in pairs], prompt_name="query")
        passages = self.embed_all([pair["passage"] for pair in pairs])
        scores = queries.astype(np.float64) @ passages.T.astype(np.float64)
        ranks = (scores > np.diag(scores)[:, None]).sum(1)  # 0: the right passage came first
        self.assertAlmostEqual(np.mean(ranks < 1), 0.474, delta=self.tolerance)
        self.assertAlmostEqual(np.mean(ranks < 10), 0.661, delta=self.tolerance)
        self.assertAlmostEqual(np.mean(np.where(ranks < 10, 1 / (ranks + 1), 0)), 0.533, delta=self.tolerance)


class F32Test(WordnetRetrieval, ServerTest):
    options = ("--dtype", "f32")


class Bf16Test(WordnetRetrieval, ServerTest):
    options = ("--dtype", "bf16")
    tolerance = 0.005


class Int8Test(WordnetRetrieval, ServerTest):
    options = ("--dtype", "int8")
    tolerance = 0.01


if __name__ == "__main__":
    unittest.main()
