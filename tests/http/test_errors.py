"""What is wrong with a request is a 4xx in one shape that says where; no body, however hostile, is a 5xx or the end
of the server."""

import gzip
import json
import unittest

import numpy as np

from espalier_server import MAX_TOKENS, VOCABULARY, ServerTest, read_answer, wait_until

EMBEDDINGS, RERANK = "/v1/embeddings", "/v1/rerank"
PLACE = r"line \d+, column \d+"


def http_post(path, body, *headers, length=None):
    """Raw bytes of a POST; `length` overrides the Content-Length, None of it where `headers` has its own framing."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    if not any(header.lower().startswith("transfer-encoding") for header in headers):
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(body, size=4096):
    chunks = [body[begin:begin + size] for begin in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


class ErrorTest(ServerTest):
    def tearDown(self):
        self.assertEqual(self.server.embed("still there").shape[0], 1)


class EmbeddingErrorTest(ErrorTest):
    def refused(self, body, param, message=".", code=None):
        with self.subTest(body=str(body)[:80]):
            reply = self.server.post(EMBEDDINGS, body)
            self.assert_error(reply, 400, param, code, message)
            self.assertEqual(reply.error()["type"], "invalid_request_error")

    def test_input_of_a_wrong_type_or_value(self):
        self.refused({}, "input", "missing")
        self.refused({"input": None}, "input")
        self.refused({"input": 5}, "input")
        self.refused({"input": True}, "input")
        self.refused({"input": {"text": "a"}}, "input")
        self.refused({"input": ""}, "input", "empty")
        self.refused({"input": []}, "input", "empty")
        self.refused({"input": [[]]}, "input[0]", "empty")
        self.refused({"input": ["a", ""]}, "input[1]", "empty")
        self.refused({"input": ["a", 5]}, "input[1]")
        self.refused({"input": ["a", None]}, "input[1]")
        self.refused({"input": [None]}, "input[0]")
        self.refused({"input": [5, "a"]}, "input[1]")
        self.refused({"input": [[5], "a"]}, "input[1]")
        self.refused({"input": [[[5]]]}, "input[0][0]")

    def test_token_ids_that_the_model_lacks(self):
        self.refused({"input": [5, VOCABULARY]}, "input[1]", str(VOCABULARY))
        self.refused({"input": [[5], [5, 6, 151643]]}, "input[1][2]", "151643")
        for wrong in (-1, 1.5, 1e30, 2**32, 2**64, -2**63, True, "5"):
            self.refused({"input": [5, wrong]}, "input[1]")

    def test_more_than_2048_inputs(self):
        self.refused({"input": ["a"] * 2049}, "input", "2048")
        self.refused({"input": [[5]] * 2049}, "input", "2048")

    def test_options_of_a_wrong_type_or_value(self):
        for wrong in (0, -1, 257, 1.5, "64", 2**70, [64], True):
            self.refused({"input": "a", "dimensions": wrong}, "dimensions")
        for wrong in ("int4", "", 5, ["float"]):
            self.refused({"input": "a", "encoding_format": wrong}, "encoding_format", "base64|string")
        for wrong in ("no", 1, {}):
            self.refused({"input": "a", "truncate": wrong}, "truncate", "true, false")
        self.refused({"input": "a", "model": 5}, "model")
        self.refused({"input": "a", "instruction": 5}, "instruction")
        self.refused({"input": "a", "prompt_name": 5}, "prompt_name")

    def test_an_unknown_prompt_name_is_answered_with_those_there_are(self):
        self.refused({"input": "a", "prompt_name": "passage"}, "prompt_name", '"document", "query"')
        self.refused({"input": "a", "prompt_name": "query", "instruction": "b"}, "instruction", "prompt_name")

    def test_a_text_that_is_too_long_and_may_not_be_cut(self):
        too_long = [5] * MAX_TOKENS
        self.refused({"input": too_long, "truncate": False}, "input", f"{MAX_TOKENS + 1} tokens.*{MAX_TOKENS}",
                     "context_length_exceeded")
        self.refused({"input": ["a", "salt " * 3000], "truncate": False}, "input[1]", ".", "context_length_exceeded")


class RerankErrorTest(ErrorTest):
    def refused(self, param, message=".", code=None, **fields):
        body = {"query": "a", "documents": ["b"], **fields}
        with self.subTest(fields=str(fields)[:80]):
            reply = self.server.post(RERANK, {name: value for name, value in body.items() if value != "absent"})
            self.assert_error(reply, 400, param, code, message)

    def test_fields_of_a_wrong_type_or_value(self):
        for wrong in ("absent", None, 5, ["a"], {"text": "a"}):
            self.refused("query", query=wrong)
        for wrong in ("absent", None, "b", 5, {"text": "b"}, []):
            self.refused("documents", documents=wrong)
        self.refused("documents[1]", documents=["b", 5])
        self.refused("documents[0]", documents=[None])
        self.refused("documents[1]", documents=["b", ["c"]])
        self.refused("documents[1].text", documents=["b", {"title": "c"}])
        self.refused("documents[0].text", documents=[{"text": 5}])
        for wrong in (-1, 1.5, "3", True, 2**70):
            self.refused("top_n", top_n=wrong)
        self.refused("return_documents", return_documents="yes")
        self.refused("truncate", truncate=0)
        self.refused("instruction", instruction=["a"])
        self.refused("model", model={})

    def test_a_document_that_is_too_long_and_may_not_be_cut(self):
        self.refused("documents[1]", documents=["b", "salt " * 3000], truncate=False, code="context_length_exceeded")

    def test_a_query_that_leaves_no_room_for_documents(self):
        self.refused("query", query="salt " * 3000, code="context_length_exceeded")


class JsonTest(ErrorTest):
    def refused(self, body, message=PLACE, code="invalid_json"):
        for path in (EMBEDDINGS, RERANK):
            with self.subTest(path=path, body=body[:60]):
                reply = self.server.post(path, body)
                self.assert_error(reply, 400, None, code, message)
                self.assertLess(len(reply.body), 4096)

    def test_malformed_json_is_answered_with_the_place(self):
        for body in (b"{", b"}", b'{"input": "a"', b'{"input": "a",}', b"{'input': 'a'}", b'{"input": tru}', b"hello",
                     b'{"input": "a"} x', b'{"input": "a\nb"}', b'{"input": 01}', b'{"input" "a"}',
                     b'\0{"input": "a"}'):
            self.refused(body)
        reply = self.server.post(EMBEDDINGS, b'{\n  "model": "m",\n  "input": oops\n}')
        self.assertIn("line 3, column 1", reply.error()["message"])

    def test_a_body_that_is_no_object(self):
        for body in (b"null", b"[]", b'"a"', b"5", b'["a"]'):
            self.refused(body, "object")
        self.refused(b"", "empty")

    def test_what_json_has_not(self):
        for body in (b'{"input": NaN}', b'{"input": [Infinity]}', b'{"dimensions": -Infinity}',
                     b'{"dimensions": 1e400}'):
            self.refused(body)

    def test_invalid_utf8_and_lone_surrogates(self):
        for text in (b"\xff", b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\\ud800", b"\\udc00\\ud800",
                     b"\\ud800a", b"\\u12g4"):
            self.refused(b'{"input": "' + text + b'", "query": "' + text + b'"}')
            self.refused(b'{"ignored": "' + text + b'"}')

    def test_surrogate_pairs_are_one_character(self):
        reply = self.server.post(EMBEDDINGS, b'{"input": "\\ud83d\\udc4d"}')
        np.testing.assert_array_equal(reply.embeddings(), self.server.embed("👍"))

    def test_deep_nesting(self):
        for depth in (10_000, 5_000_000):
            for body in (b"[" * depth, b'{"input":' * (depth // 9), b'{"ignored":' + b"[" * depth,
                         b'{"input":' + b"[" * depth + b"]" * depth + b"}"):
                self.refused(body, "nested")

    def test_the_last_of_duplicate_keys_counts(self):
        reply = self.server.post(EMBEDDINGS, b'{"input": "a", "input": "salt"}')
        np.testing.assert_array_equal(reply.embeddings(), self.server.embed("salt"))

    def test_more_values_than_any_request_needs(self):
        many = b"1," * 3_000_000 + b"1"
        self.refused(b'{"input": [' + many + b'], "documents": [' + many + b"]}", "values")


class HttpTest(ErrorTest):
    options = ("--max-body-mb", "1")
    BODY = json.dumps({"input": "salt"}).encode()
    TOO_LARGE = json.dumps({"input": "salt " * 300_000}).encode()

    def test_unknown_routes(self):
        for path in ("/v1", "/v1/embeddings/", "/V1/EMBEDDINGS", "/v1/../v1/embeddings", "/%00",
                     "/v1/chat/completions"):
            self.assert_error(self.server.get(path), 404)
            self.assert_error(self.server.post(path, {"input": "a"}), 404)

    def test_wrong_methods_name_the_right_one(self):
        for path, right, wrong in ((EMBEDDINGS, "POST", "GET"), (RERANK, "POST", "PUT"), (RERANK, "POST", "DELETE"),
                                   ("/health", "GET", "POST"), ("/metrics", "GET", "DELETE"),
                                   ("/v1/models", "GET", "PATCH")):
            reply = self.server.request(wrong, path, None if wrong in ("GET", "DELETE") else {"input": "a"})
            self.assert_error(reply, 405)
            self.assertIn(right, reply.headers["allow"])

    def test_media_types_other_than_json(self):
        for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
                             "application/octet-stream"):
            reply = self.server.request("POST", EMBEDDINGS, self.BODY, {"Content-Type": content_type})
            self.assert_error(reply, 415, message="application/json")

    def test_a_body_over_the_limit(self):
        self.assertGreater(len(self.TOO_LARGE), 2**20)
        reply = self.server.exchange(http_post(EMBEDDINGS, self.TOO_LARGE))
        self.assert_error(reply, 413)
        self.assertEqual(reply.headers["connection"], "close")

    def test_three_gigabytes_are_refused_before_they_are_sent(self):
        for length in (3 * 10**9, 2**63, 2**64 - 1):
            reply = self.server.exchange(http_post(EMBEDDINGS, b"", length=length))
            self.assert_error(reply, 413)

    def test_chunked_bodies_are_read_and_counted(self):
        reply = self.server.exchange(http_post(EMBEDDINGS, chunked(self.BODY, 3), "Transfer-Encoding: chunked"))
        np.testing.assert_array_equal(reply.embeddings(), self.server.embed("salt"))
        self.assert_error(self.server.exchange(
            http_post(EMBEDDINGS, chunked(self.TOO_LARGE), "Transfer-Encoding: chunked")), 413)

    def test_compressed_bodies_are_read_and_counted_after_decoding(self):
        reply = self.server.request("POST", EMBEDDINGS, gzip.compress(self.BODY), {"Content-Encoding": "gzip"})
        np.testing.assert_array_equal(reply.embeddings(), self.server.embed("salt"))
        for bomb in (gzip.compress(self.TOO_LARGE), gzip.compress(b" " * 10**9 + self.BODY, 1)):
            in_one_piece = http_post(EMBEDDINGS, bomb, "Content-Encoding: gzip")
            in_chunks = http_post(EMBEDDINGS, chunked(bomb), "Content-Encoding: gzip", "Transfer-Encoding: chunked")
            for request in (in_one_piece, in_chunks):
                self.assert_error(self.server.exchange(request), 413)

    def test_what_cannot_be_decoded(self):
        packed = gzip.compress(self.BODY)
        for encoding, body in (("gzip", self.BODY), ("gzip", packed[:-12]), ("gzip", packed[:10] + b"\xff" * 40),
                               ("br", b"\xff\xff\xff\xff" + self.BODY), ("deflate", b"\x00\x01")):
            with self.subTest(encoding=encoding, body=body):
                request = http_post(EMBEDDINGS, body, f"Content-Encoding: {encoding}")
                self.assert_error(self.server.exchange(request), 400)

    def test_an_unknown_content_encoding(self):
        self.assert_error(self.server.exchange(http_post(EMBEDDINGS, self.BODY, "Content-Encoding: zstd")), 415)

    def assert_refused_or_closed(self, request):
        """For what is no HTTP: a 4xx that closes the connection, or just that."""
        reply = self.server.exchange(request)
        if reply is not None:
            self.assertTrue(400 <= reply.status < 500, reply)
            self.assertNotIn(reply.status, (408, 409, 429))

    def test_ambiguous_framing_is_refused(self):
        both = (b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\nTransfer-Encoding: chunked\r\n\r\n"
                + chunked(self.BODY))
        self.assert_error(self.server.exchange(both), 400)
        twice = http_post(EMBEDDINGS, self.BODY, "Content-Length: 3")
        self.assert_error(self.server.exchange(twice), 400)

    def test_malformed_lengths(self):
        for length in ("-1", "abc", "0x11", "17abc", "1e2", "99999999999999999999999999"):
            self.assert_refused_or_closed(http_post(EMBEDDINGS, self.BODY, length=length))

    def test_malformed_chunks(self):
        for body in (b"xyz\r\n", b"-5\r\nabc\r\n0\r\n\r\n", b"ffffffffffffffff\r\nabc", b"5\r\nabcdefgh\r\n0\r\n\r\n"):
            with self.server.connect() as connection:
                connection.sendall(http_post(EMBEDDINGS, body, "Transfer-Encoding: chunked"))
                connection.shutdown(1)  # nothing more will come
                reply = read_answer(connection)
            if reply is not None:
                self.assertTrue(400 <= reply.status < 500, reply)

    def test_what_is_no_http(self):
        for request in (b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500, b"GET\r\n\r\n",
                        b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
                        b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
                        b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 100_000 + b"\r\n"):
            with self.server.connect() as connection:
                try:
                    connection.sendall(request)
                    connection.shutdown(1)
                except (BrokenPipeError, ConnectionResetError, OSError):
                    pass  # refused before all of it was sent
                reply = read_answer(connection)
            if reply is not None:
                self.assertTrue(400 <= reply.status < 500, reply)

    def test_clients_that_leave_in_the_middle(self):
        request = http_post(EMBEDDINGS, self.BODY)
        for cut in range(0, len(request), 7):
            with self.server.connect() as connection:
                connection.sendall(request[:cut])
        errors = [name for name in self.server.metrics() if 'status="5' in name]
        self.assertEqual(errors, [])

    def test_expect_100_continue(self):
        with self.server.connect() as connection:
            head, body = http_post(EMBEDDINGS, self.BODY, "Expect: 100-continue").split(b"\r\n\r\n", 1)
            connection.sendall(head + b"\r\n\r\n")
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n"))
            connection.sendall(body)
            self.assertEqual(read_answer(connection).status, 200)

    def test_head_and_options_are_answered(self):
        for method in ("HEAD", "OPTIONS"):
            reply = self.server.request(method, "/health")
            self.assertLess(reply.status, 500)

    def test_errors_are_counted_by_route_and_status(self):
        def counted():
            return self.server.metrics().get('espalier_requests_total{route="/v1/embeddings",status="400"}', 0)
        before = counted()
        for _ in range(3):
            self.assert_error(self.server.post(EMBEDDINGS, {"input": []}), 400, "input")
        wait_until(lambda: counted() == before + 3, "three more requests with status 400")


if __name__ == "__main__":
    unittest.main()
