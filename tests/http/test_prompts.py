"""prompt_name, instruction and input_type are the same text in front of the input on all routes."""

import unittest

import numpy as np

from espalier_server import END_TOKEN, EspalierTest, MAX_TOKENS, ServerTest, tokenize

QUERY_PROMPT = "Instruct: Given a search query, retrieve relevant passages that answer the query\nQuery:"
TEXTS = ["gravity", "naïve — 今日は", "x <|im_end|> x"]
# The fields, and the text that they put in front.
PROMPTS = [({"prompt_name": "query"}, QUERY_PROMPT), ({"prompt_name": "document"}, ""),
           ({"input_type": "search_query"}, QUERY_PROMPT), ({"input_type": "query"}, QUERY_PROMPT),
           ({"input_type": "search_document"}, ""), ({"input_type": "classification"}, ""),
           ({"task": "retrieval.query"}, QUERY_PROMPT), ({"task": "retrieval.passage"}, ""),
           ({"instruction": "Find it"}, "Instruct: Find it\nQuery:"),
           ({"instruction": "Find it", "input_type": "query"}, "Instruct: Find it\nQuery:")]


def vectors_of(server, path, texts, fields):
    """(S × H) of any embedding route."""
    member = {"/v1/embeddings": "input", "/embeddings": "input", "/embed": "inputs"}.get(path, "texts")
    reply = server.post(path, {member: texts, **fields})
    assert reply.status == 200, reply
    answer = reply.json()
    if path.endswith("embeddings"):
        return reply.embeddings()
    vectors = answer if path == "/embed" else answer["embeddings"]
    return np.float32(vectors["float"] if path == "/v2/embed" else vectors)


ROUTES = ("/v1/embeddings", "/embeddings", "/embed", "/v1/embed", "/v2/embed")


class PromptTest(ServerTest):
    def test_prompts_are_text_in_front_on_every_route(self):
        for fields, prompt in PROMPTS:
            expected = self.server.embed([prompt + text for text in TEXTS])
            for path in ROUTES:
                with self.subTest(path=path, fields=fields):
                    np.testing.assert_allclose(vectors_of(self.server, path, TEXTS, fields), expected, atol=1e-6)

    def test_and_on_similarity_tokenize_and_embed_all(self):
        for fields, prompt in PROMPTS:
            with self.subTest(fields=fields):
                vectors = self.server.embed([prompt + text for text in TEXTS]).astype(np.float64)
                inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
                for body in ({"inputs": inputs, **fields}, {"inputs": inputs, "parameters": fields},
                             {"inputs": inputs, "parameters": {}, **fields}):
                    cosines = self.server.post("/similarity", body).json()
                    np.testing.assert_allclose(cosines, vectors[1:] @ vectors[0], atol=1e-5)
                tokens = self.server.post("/tokenize", {"inputs": TEXTS, **fields}).json()
                expected = tokenize([prompt + text for text in TEXTS])
                self.assertEqual([[token["id"] for token in each] for each in tokens], expected)
                states = self.server.post("/embed_all", {"inputs": TEXTS, **fields}).json()
                self.assertEqual(list(map(len, states)), list(map(len, expected)))

    def test_contradictions_are_refused(self):
        for path, member in (("/v1/embeddings", "input"), ("/v2/embed", "texts")):
            for fields, param in (({"prompt_name": "query", "instruction": "a"}, "instruction"),
                                  ({"prompt_name": "query", "input_type": "query"}, "input_type"),
                                  ({"instruction": "a", "input_type": "document"}, "instruction"),
                                  ({"task": "retrieval.query", "input_type": "document"}, "task"),
                                  ({"prompt_name": "nope"}, "prompt_name"), ({"input_type": "nope"}, "input_type")):
                self.assert_error(self.server.post(path, {member: ["a"], **fields}), 400, param)

    def test_a_prompt_that_leaves_no_room_is_refused(self):
        for truncate in ("START", "END", "NONE"):
            reply = self.server.post("/v1/embeddings", {"input": ["a"] * 2048, "truncate": truncate,
                                                        "instruction": "salt " * 200_000})
            self.assert_error(reply, 400, "instruction", "context_length_exceeded")

    def test_token_ids_take_no_prompt(self):
        for path, member in (("/v1/embeddings", "input"), ("/v2/embed", "texts")):
            self.assert_error(self.server.post(path, {member: [[5, 6]], "prompt_name": "query"}), 400, f"{member}[0]")

    def test_token_ids_get_the_end_token_on_every_route(self):
        expected = self.server.embed([[5, 6, END_TOKEN], [7, END_TOKEN]])
        for path in ROUTES:
            np.testing.assert_array_equal(vectors_of(self.server, path, [[5, 6], [7]], {}), expected, path)


class TruncationTest(ServerTest):
    LONG = "the mail boat came in winter and ships passed the cape from spring until the first ice " * 200

    def test_start_and_end_keep_prompt_and_end_token_on_every_route(self):
        ids = tokenize([self.LONG])[0]
        prompt = tokenize([QUERY_PROMPT], add_special_tokens=False)[0]
        joined = tokenize([QUERY_PROMPT + self.LONG])[0]
        self.assertGreater(len(ids), MAX_TOKENS)
        cases = [({"truncate": "END"}, ids[:MAX_TOKENS - 1]), ({"truncate": True}, ids[:MAX_TOKENS - 1]),
                 ({"truncate": "START"}, ids[-MAX_TOKENS:]), ({"truncation_direction": "Left"}, ids[-MAX_TOKENS:]),
                 ({"truncation_side": "left", "truncate_prompt_tokens": 50}, ids[-50:]),
                 ({"truncate_prompt_tokens": 50}, ids[:49]),
                 ({"truncate": "START", "prompt_name": "query", "truncate_prompt_tokens": 100},
                  joined[:len(prompt)] + joined[len(prompt) - 100:])]
        for fields, kept in cases:
            expected = self.server.embed(kept)
            for path in ("/v1/embeddings", "/embed", "/v2/embed"):
                with self.subTest(path=path, fields=fields):
                    np.testing.assert_allclose(vectors_of(self.server, path, [self.LONG], fields), expected, atol=1e-5)

    def test_none_refuses_on_every_route(self):
        bodies = (("/v1/embeddings", {"input": self.LONG}), ("/v1/embed", {"texts": [self.LONG]}),
                  ("/rerank", {"query": "a", "documents": [self.LONG]}), ("/score", {"text_1": "a", "text_2": self.LONG}))
        for path, body in bodies:
            for truncate in (False, "NONE"):
                reply = self.server.post(path, {**body, "truncate": truncate})
                self.assertEqual((reply.status, reply.error()["code"]), (400, "context_length_exceeded"), reply)
        inputs = {"source_sentence": "a", "sentences": [self.LONG]}
        for path, body in (("/embed", {"inputs": self.LONG}), ("/embed_all", {"inputs": self.LONG}),
                           ("/similarity", {"inputs": inputs}), ("/rerank", {"query": "a", "texts": [self.LONG]})):
            reply = self.server.post(path, {**body, "truncate": False})
            self.assertEqual((reply.status, reply.json()["error_type"]), (413, "Validation"), reply)


class DefaultPromptTest(EspalierTest):
    def test_the_default_prompt_is_for_texts_without_another(self):
        plain = self.start()
        server = self.start("--default-prompt-name", "query")
        expected = plain.embed([QUERY_PROMPT + text for text in TEXTS])
        for path in ROUTES:
            np.testing.assert_allclose(vectors_of(server, path, TEXTS, {}), expected, atol=1e-6)
            for fields in ({"prompt_name": "document"}, {"input_type": "document"}):
                np.testing.assert_allclose(vectors_of(server, path, TEXTS, fields), plain.embed(TEXTS), atol=1e-6)
            np.testing.assert_array_equal(vectors_of(server, path, [[5, 6]], {}), plain.embed([[5, 6]]))
        self.assert_error(server.post("/v1/embeddings", {"input": "a", "truncate_prompt_tokens": 3}), 400,
                          "truncate_prompt_tokens")


if __name__ == "__main__":
    unittest.main()
