"""POST /v1/embeddings: every accepted shape of a request, what each option does, and the answer's shape."""

import base64
import unittest

import numpy as np

from espalier_server import END_TOKEN, HIDDEN_SIZE, MAX_TOKENS, ServerTest, tokenize

PATH = "/v1/embeddings"
QUERY_PROMPT = "Instruct: Given a search query, retrieve relevant passages that answer the query\nQuery:"
TEXTS = ["a tree trained to grow flat", "naïve café — Ünïcödé", "今日は 👩‍👩‍👧 🇫🇷", " ", "\t\n", "a\u0000b",
         "<think> <|im_end|>"]
LONG_TEXT = "the mail boat came in winter and ships passed the cape from spring until the first ice " * 200


class InputShapeTest(ServerTest):
    def test_a_string_gives_one_embedding(self):
        reply = self.server.post(PATH, {"input": TEXTS[0], "model": "espalier-mini"})
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.headers["content-type"].split(";")[0], "application/json")
        tokens = len(tokenize([TEXTS[0]])[0])
        answer = reply.json()
        self.assertEqual(set(answer), {"object", "data", "model", "usage"})
        self.assertEqual(answer["object"], "list")
        self.assertEqual(answer["model"], "espalier-mini")
        self.assertEqual(answer["usage"], {"prompt_tokens": tokens, "total_tokens": tokens})
        self.assertEqual(len(answer["data"]), 1)
        entry = answer["data"][0]
        self.assertEqual((entry["object"], entry["index"], len(entry["embedding"])), ("embedding", 0, HIDDEN_SIZE))

    def test_an_array_gives_one_embedding_for_each_in_order(self):
        reply = self.server.post(PATH, {"input": TEXTS})
        self.assertEqual(reply.json()["usage"]["total_tokens"], sum(map(len, tokenize(TEXTS))))
        together = reply.embeddings()
        self.assertEqual(together.shape, (len(TEXTS), HIDDEN_SIZE))
        for text, embedding in zip(TEXTS, together):
            np.testing.assert_allclose(self.server.embed([text])[0], embedding, atol=1e-5)
        self.assertEqual(len(np.unique(together.round(4), axis=0)), len(TEXTS))

    def test_token_ids_are_the_text_that_they_are_the_tokens_of(self):
        for text, ids in zip(TEXTS, tokenize(TEXTS)):
            expected = self.server.embed(text)
            np.testing.assert_array_equal(self.server.embed(ids), expected, text)
            np.testing.assert_array_equal(self.server.embed([ids]), expected, text)

    def test_token_ids_without_the_end_token_get_it(self):
        ids = tokenize(TEXTS, add_special_tokens=False)
        reply = self.server.post(PATH, {"input": ids})
        np.testing.assert_array_equal(reply.embeddings(), self.server.embed(TEXTS))
        self.assertEqual(reply.json()["usage"]["prompt_tokens"], sum(len(each) + 1 for each in ids))

    def test_an_end_token_alone_is_used_as_sent(self):
        reply = self.server.post(PATH, {"input": [END_TOKEN]})
        self.assertEqual(reply.json()["usage"]["prompt_tokens"], 1)

    def test_special_tokens_in_a_plain_text_are_recognised(self):
        ids = tokenize(["<|im_end|>"], add_special_tokens=False)[0]
        self.assertEqual(len(ids), 1)
        np.testing.assert_array_equal(self.server.embed("<|im_end|>"), self.server.embed(ids))

    def test_2048_inputs_are_answered(self):
        inputs = [f"number {i % 700}" for i in range(2048)]
        embeddings = self.server.embed(inputs)
        self.assertEqual(embeddings.shape, (2048, HIDDEN_SIZE))
        np.testing.assert_allclose(embeddings[1400:2048], embeddings[:648], atol=1e-5)

    def test_equal_inputs_have_equal_embeddings(self):
        embeddings = self.server.embed(["same", "other", "same"])
        np.testing.assert_array_equal(embeddings[0], embeddings[2])
        self.assertGreater(np.abs(embeddings[0] - embeddings[1]).max(), 0.01)


class OptionTest(ServerTest):
    def tokens_of(self, body):
        reply = self.server.post(PATH, body)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()["usage"]["prompt_tokens"]

    def test_dimensions_cut_and_then_normalise(self):
        full = self.server.embed(TEXTS[0])[0]
        for dimensions in (1, 32, 100, HIDDEN_SIZE):
            cut = self.server.embed(TEXTS[0], dimensions=dimensions)[0]
            self.assertEqual(len(cut), dimensions)
            expected = full[:dimensions] / np.linalg.norm(full[:dimensions])
            np.testing.assert_allclose(cut, expected, atol=1e-6)

    def test_embeddings_are_unit_vectors(self):
        norms = np.linalg.norm(self.server.embed(TEXTS).astype(np.float64), axis=1)
        np.testing.assert_allclose(norms, 1, atol=1e-6)

    def test_base64_holds_the_same_floats(self):
        as_float = self.server.embed(TEXTS, encoding_format="float", dimensions=64)
        reply = self.server.post(PATH, {"input": TEXTS, "encoding_format": "base64", "dimensions": 64})
        for expected, entry in zip(as_float, reply.json()["data"]):
            np.testing.assert_array_equal(np.frombuffer(base64.b64decode(entry["embedding"]), "<f4"), expected)

    def test_prompt_name_puts_the_models_prompt_before_the_text(self):
        reply = self.server.post(PATH, {"input": ["gravity", "salt"], "prompt_name": "query"})
        prompted = [QUERY_PROMPT + "gravity", QUERY_PROMPT + "salt"]
        np.testing.assert_allclose(reply.embeddings(), self.server.embed(prompted), atol=1e-6)
        self.assertEqual(reply.json()["usage"]["prompt_tokens"], sum(map(len, tokenize(prompted))))

    def test_added_tokens_behind_a_prompt_are_recognised_as_by_sentence_transformers(self):
        for token in ("<|im_end|>", "<|endoftext|>", "<think>"):
            text = f"x {token} x"
            self.assertEqual(self.tokens_of({"input": text, "prompt_name": "query"}),
                             len(tokenize([QUERY_PROMPT + text])[0]))
            np.testing.assert_allclose(self.server.embed(text, prompt_name="query"),
                                       self.server.embed(QUERY_PROMPT + text), atol=1e-6)

    def test_an_empty_prompt_is_the_text_alone(self):
        np.testing.assert_array_equal(self.server.embed("salt", prompt_name="document"), self.server.embed("salt"))

    def test_an_instruction_is_filled_in_as_qwen3_does(self):
        instructed = self.server.embed("salt", instruction="Find the opposite")
        np.testing.assert_allclose(instructed, self.server.embed("Instruct: Find the opposite\nQuery:salt"), atol=1e-6)
        self.assertGreater(np.abs(instructed - self.server.embed("salt")).max(), 0.01)

    def test_a_long_text_keeps_its_first_tokens_and_the_end_token(self):
        ids = tokenize([LONG_TEXT], add_special_tokens=False)[0]
        self.assertGreater(len(ids), MAX_TOKENS)
        reply = self.server.post(PATH, {"input": LONG_TEXT})
        self.assertEqual(reply.json()["usage"]["prompt_tokens"], MAX_TOKENS)
        kept = ids[:MAX_TOKENS - 1] + [END_TOKEN]
        np.testing.assert_array_equal(reply.embeddings(), self.server.embed(kept))
        np.testing.assert_array_equal(self.server.embed(LONG_TEXT, truncate=True), reply.embeddings())

    def test_long_token_ids_are_cut_like_text(self):
        ids = tokenize([LONG_TEXT], add_special_tokens=False)[0]
        np.testing.assert_array_equal(self.server.embed(ids), self.server.embed(LONG_TEXT))

    def test_a_text_of_just_the_maximum_is_not_cut(self):
        ids = tokenize([LONG_TEXT], add_special_tokens=False)[0][:MAX_TOKENS - 1]
        reply = self.server.post(PATH, {"input": ids, "truncate": False})
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.json()["usage"]["prompt_tokens"], MAX_TOKENS)

    def test_unknown_fields_and_nulls_are_ignored(self):
        plain = self.server.embed("salt")
        for fields in ({"user": "u", "priority": {"a": [1, {"b": None}]}, "cache_salt": "c"},
                       {"encoding_format": None, "dimensions": None, "prompt_name": None, "instruction": None,
                        "truncate": None, "model": None, "user": None}):
            np.testing.assert_array_equal(self.server.embed("salt", **fields), plain)

    def test_any_model_name_is_answered_by_the_model_there_is(self):
        for model in ("text-embedding-3-small", "", "espalier-mini"):
            reply = self.server.post(PATH, {"input": "salt", "model": model})
            self.assertEqual((reply.status, reply.json()["model"]), (200, "espalier-mini"))


class ShortLimitTest(ServerTest):
    options = ("--max-input-tokens", "16", "--max-batch-tokens", "8")

    def test_the_option_lowers_the_limit_and_long_inputs_run_alone(self):
        ids = tokenize([LONG_TEXT], add_special_tokens=False)[0]
        reply = self.server.post(PATH, {"input": [LONG_TEXT, "salt"]})
        self.assertEqual(reply.json()["usage"]["prompt_tokens"], 16 + len(tokenize(["salt"])[0]))
        np.testing.assert_allclose(reply.embeddings()[0], self.server.embed(ids[:15])[0], atol=1e-5)

    def test_a_prompt_that_leaves_no_room_is_refused(self):
        prompted = tokenize([QUERY_PROMPT + "salt"], add_special_tokens=False)[0]
        self.assertGreater(len(prompted), 15)  # every input would have the same embedding
        self.assert_error(self.server.post(PATH, {"input": "salt", "prompt_name": "query"}), 400, "prompt_name",
                          "context_length_exceeded", "no room")


class ClientHabitsTest(ServerTest):
    """What clients do beside the definition."""

    def test_json_with_a_charset_a_suffix_or_without_a_type_is_read(self):
        for content_type in ("application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json", ""):
            reply = self.server.request("POST", PATH, {"input": "salt"}, {"Content-Type": content_type})
            self.assertEqual(reply.status, 200, content_type)

    def test_a_query_string_and_an_empty_authorization_are_ignored(self):
        reply = self.server.request("POST", PATH + "?api-version=1", {"input": "salt"}, {"Authorization": ""})
        self.assertEqual(reply.status, 200)

    def test_many_requests_on_one_connection(self):
        body = b'{"input": "salt"}'
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with self.server.connect() as connection:
            stream = connection.makefile("rb")
            for _ in range(20):
                connection.sendall(head.encode() + body)
                self.assertIn(b" 200 ", stream.readline())
                length = 0
                while (line := stream.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.assertTrue(stream.read(length).startswith(b'{"object":"list"'))

    def test_the_model_is_listed(self):
        models = self.server.get("/v1/models").json()
        self.assertEqual(models["object"], "list")
        self.assertEqual([(model["id"], model["object"]) for model in models["data"]], [("espalier-mini", "model")])


if __name__ == "__main__":
    unittest.main()
