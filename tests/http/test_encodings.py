"""How vectors are written: float, base64, int8, uint8, binary and ubinary, on all routes that offer them."""

import base64
import unittest

import numpy as np

from espalier_server import ServerTest

TEXTS = ["a tree trained to grow flat", "今日は", "salt"]
NAMES = ("float", "base64", "int8", "uint8", "binary", "ubinary")


def expected(vector, name):
    """`vector` (H) as numpy writes it."""
    scaled = np.float64(vector) * 127 / np.abs(np.float64(vector)).max()
    bits = np.packbits(vector > 0)
    return {"float": vector, "base64": vector, "int8": np.rint(scaled), "uint8": np.rint(scaled) + 128,
            "ubinary": bits, "binary": bits.astype(np.int16) - 128}[name]


def decoded(value, name):
    return np.frombuffer(base64.b64decode(value), "<f4") if name == "base64" else np.array(value)


class EncodingTest(ServerTest):
    def test_numbers_are_numpys(self):
        for dimensions in (256, 64, 13, 1):
            vectors = self.server.embed(TEXTS, dimensions=dimensions)
            cohere = self.server.post("/v2/embed", {"texts": TEXTS, "output_dimension": dimensions,
                                                    "embedding_types": NAMES}).json()["embeddings"]
            self.assertEqual(set(cohere), set(NAMES))
            for name in NAMES:
                with self.subTest(name=name, dimensions=dimensions):
                    ours = self.server.post("/v1/embeddings", {"input": TEXTS, "dimensions": dimensions,
                                                               "encoding_format": name}).json()["data"]
                    for i, vector in enumerate(vectors):
                        value = decoded(ours[i]["embedding"], name)
                        np.testing.assert_array_equal(value.astype(np.float32), np.float32(expected(vector, name)))
                        self.assertEqual(cohere[name][i], ours[i]["embedding"])

    def test_other_names_of_the_field(self):
        plain = self.server.post("/v1/embeddings", {"input": "a", "encoding_format": "int8"}).json()["data"]
        for field in ("embedding_type", "encoding_type", "output_dtype"):
            reply = self.server.post("/v1/embeddings", {"input": "a", field: "int8"})
            self.assertEqual(reply.json()["data"], plain)
        both = self.server.post("/v1/embeddings", {"input": "a", "encoding_format": "base64", "output_dtype": "float"})
        self.assertIsInstance(both.json()["data"][0]["embedding"], str)
        reply = self.server.post("/v1/embeddings", {"input": "a", "embedding_type": "int8", "output_dtype": "binary"})
        self.assert_error(reply, 400, "output_dtype", message="embedding_type")

    def test_bytes_rank_as_the_floats_do(self):
        vectors = self.server.embed(TEXTS * 1)
        rows = [entry["embedding"] for entry in
                self.server.post("/v1/embeddings", {"input": TEXTS, "encoding_format": "int8"}).json()["data"]]
        small = np.array(rows, np.float64)
        small /= np.linalg.norm(small, axis=1, keepdims=True)
        np.testing.assert_allclose(small @ small.T, vectors @ vectors.T, atol=0.02)

    def test_unnormalised_vectors_point_the_same_way(self):
        raw = self.server.embed(TEXTS, normalized=False)
        self.assertGreater(np.abs(np.linalg.norm(raw, axis=1) - 1).max(), 0.01)
        unit = raw / np.linalg.norm(raw.astype(np.float64), axis=1, keepdims=True)
        np.testing.assert_allclose(unit, self.server.embed(TEXTS), atol=1e-6)


if __name__ == "__main__":
    unittest.main()
