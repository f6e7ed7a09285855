"""Cohere's /v1/embed and /v2/embed: the same vectors as /v1/embeddings, in Cohere's shapes."""

import unittest

import numpy as np

from espalier_server import HIDDEN_SIZE, ServerTest, tokenize

TEXTS = ["a tree trained to grow flat", "naïve café — Ünïcödé", "今日は 👩‍👩‍👧", "salt"]
LONG_TEXT = "the mail boat came in winter and ships passed the cape from spring until the first ice " * 200


class CohereTest(ServerTest):
    def embed(self, path="/v2/embed", **fields):
        reply = self.server.post(path, {"texts": TEXTS, "model": "embed-v4.0", **fields})
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def test_v2_holds_the_vectors_of_v1_embeddings(self):
        answer = self.embed()
        self.assertEqual(set(answer), {"id", "embeddings", "texts", "response_type", "meta"})
        np.testing.assert_array_equal(np.float32(answer["embeddings"]["float"]), self.server.embed(TEXTS))
        self.assertEqual(answer["texts"], TEXTS)
        self.assertEqual(answer["response_type"], "embeddings_by_type")
        tokens = sum(map(len, tokenize(TEXTS)))
        self.assertEqual(answer["meta"], {"api_version": {"version": "2"}, "billed_units": {"input_tokens": tokens}})

    def test_v1_holds_them_as_plain_arrays_unless_types_are_asked_for(self):
        answer = self.embed("/v1/embed")
        np.testing.assert_array_equal(np.float32(answer["embeddings"]), self.server.embed(TEXTS))
        self.assertEqual(answer["response_type"], "embeddings_floats")
        by_type = self.embed("/v1/embed", embedding_types=["float"])
        self.assertEqual(by_type["embeddings"]["float"], answer["embeddings"])
        self.assertEqual(by_type["response_type"], "embeddings_by_type")

    def test_the_id_is_the_requests(self):
        reply = self.server.post("/v2/embed", {"texts": ["a"]}, {"X-Request-Id": "mine-7"})
        self.assertEqual(reply.json()["id"], "mine-7")
        self.assertEqual(reply.headers["x-request-id"], "mine-7")

    def test_contents_are_their_texts(self):
        contents = [{"content": [{"type": "text", "text": text}]} for text in TEXTS]
        reply = self.server.post("/v2/embed", {"inputs": contents})
        np.testing.assert_array_equal(np.float32(reply.json()["embeddings"]["float"]), self.server.embed(TEXTS))
        lines = self.server.post("/v2/embed", {"inputs": [{"content": [{"text": "a"}, {"text": "b"}]}]})
        np.testing.assert_array_equal(np.float32(lines.json()["embeddings"]["float"]), self.server.embed(["a\nb"]))

    def test_output_dimension_cuts_and_normalises(self):
        answer = self.embed(output_dimension=32)
        np.testing.assert_array_equal(np.float32(answer["embeddings"]["float"]),
                                      self.server.embed(TEXTS, dimensions=32))

    def test_truncate_cuts_one_end_or_refuses(self):
        ids = tokenize([LONG_TEXT])[0]
        vectors = {}
        for truncate in ("START", "END"):
            answer = self.embed(texts=[LONG_TEXT], truncate=truncate, max_tokens=100)
            self.assertEqual(answer["meta"]["billed_units"]["input_tokens"], 100)
            vectors[truncate] = np.float32(answer["embeddings"]["float"])
        np.testing.assert_array_equal(vectors["END"], self.server.embed(ids[:99]))
        np.testing.assert_array_equal(vectors["START"], self.server.embed(ids[-100:]))
        reply = self.server.post("/v2/embed", {"texts": ["a", LONG_TEXT], "truncate": "NONE"})
        self.assert_error(reply, 400, "texts[1]", "context_length_exceeded")

    def test_errors_name_coheres_fields(self):
        for path in ("/v1/embed", "/v2/embed"):
            for fields, param in (({"texts": []}, "texts"), ({"texts": ["a", ""]}, "texts[1]"), ({"texts": None}, "texts"),
                                  ({"output_dimension": HIDDEN_SIZE + 1}, "output_dimension"),
                                  ({"output_dimension": 0}, "output_dimension"), ({"max_tokens": 1}, "max_tokens"),
                                  ({"embedding_types": ["int4"]}, "embedding_types"),
                                  ({"embedding_types": []}, "embedding_types"), ({"input_type": "image!"}, "input_type"),
                                  ({"images": ["data:image/png;base64,AA"]}, "images"),
                                  ({"truncate": "MIDDLE"}, "truncate"), ({"texts": [[1, 9999]]}, "texts[0][1]")):
                with self.subTest(path=path, fields=fields):
                    self.assert_error(self.server.post(path, {"texts": ["a"], **fields}), 400, param)
        self.assert_error(self.server.post("/v2/embed", {"inputs": [{"content": [{"text": ""}]}]}), 400,
                          "inputs[0].content", "empty_input")
        self.assert_error(self.server.post("/v2/embed", {"texts": ["a"] * 2049}), 400, "texts", "too_many_inputs")


if __name__ == "__main__":
    unittest.main()
