"""/openapi.json: sound by itself, complete, and true of the answers of every operation, errors included."""

import json
import unittest

import jsonschema

from espalier_server import EspalierTest, ServerTest, free_port, random_inputs, run_espalier, wait_until
from openapi_document import OpenApiDocument, schema_faults
from openapi_structure import structure_faults

SLOW = ("--threads", "1", "--max-batch-tokens", "2048")
LONG_TEXT = "salt " * 500
# Their own validity; what they compute needs no scheduler, so that a full queue does not concern them.
WITHOUT_QUEUE = ("teiTokenize", "teiDecode")


def blocker_body(inputs, seed=31):
    """Keeps one compute thread busy for seconds."""
    return {"input": random_inputs(inputs, 2000, seed)}


def large_body(operation):
    """More than any server computes in a millisecond."""
    texts = [f"{i} {LONG_TEXT}" for i in range(400 if operation.id == "teiTokenize" else 50)]
    return {
        "CohereV1": {"texts": texts},
        "Rerank": {"query": "a", "documents": texts},
        "Score": {"text_1": "a", "text_2": texts},
        "Embeddings": {"input": texts},
        "similarity": {"inputs": {"source_sentence": "a", "sentences": texts}},
        "decode": {"ids": [[5] * 2000] * 500},
        "inputs": {"inputs": texts},
    }[
        {
            "createEmbeddings": "Embeddings",
            "createEmbeddingsBare": "Embeddings",
            "rerank": "Rerank",
            "rerankV2": "Rerank",
            "rerankBare": "Rerank",
            "reranking": "Rerank",
            "score": "Score",
            "scoreBare": "Score",
            "cohereEmbedV1": "CohereV1",
            "cohereEmbedV2": "CohereV1",
            "teiSimilarity": "similarity",
            "teiDecode": "decode",
        }.get(operation.id, "inputs")
    ]


def variants(operation, body):
    """The body, and for rerank the same as text-embeddings-inference's clients send it."""
    yield body
    if "documents" in body and operation.path.endswith(("rerank", "reranking")):
        yield {**{name: value for name, value in body.items() if name != "documents"}, "texts": body["documents"]}


def close_to(expected, actual):
    """Whether two JSON values are the same but for ids, times and the last digits of numbers."""
    if isinstance(expected, dict):
        return set(expected) == set(actual) and all(
            name == "created" or (name == "id" and isinstance(value, str)) or close_to(value, actual[name])
            for name, value in expected.items()
        )
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(map(close_to, expected, actual))
    if isinstance(expected, float):
        return abs(expected - actual) < 1e-4
    return expected == actual


class OpenApiTest(EspalierTest):
    def document_of(self, server):
        return OpenApiDocument(server.get("/openapi.json").json())

    def assert_described(self, operation, reply, status):
        self.assertIsNotNone(reply, f"{operation.path}: the connection was closed without an answer")
        self.assertEqual(reply.status, status, f"{operation.path}: {reply}")
        self.assertEqual(operation.faults(reply), [], f"{operation.path}: {reply}")


class DocumentTest(OpenApiTest, ServerTest):
    options = ("--debug-endpoints",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.document = OpenApiDocument(cls.server.get("/openapi.json").json())

    def test_its_structure_is_that_of_openapi_3_1(self):
        self.assertEqual(structure_faults(self.document), [])

    def test_the_check_of_the_structure_finds_faults(self):
        text = json.dumps(self.document.root)
        for right, wrong in (
            ('"operationId": "score"', '"operationId": "rerank"'),
            ("#/components/schemas/Usage", "#/components/schemas/Usages"),
            ('"minItems"', '"minItem"'),
            ('"type": "integer"', '"type": "int"'),
            ('"in": "header"', '"in": "head"'),
            ('"tags": ["Score"]', '"tags": ["Scores"]'),
            ('"summary": "Embed texts", ', '"sumary": "Embed texts", '),
            ('"description": "The scores.", ', ""),
        ):
            self.assertIn(right, text)
            self.assertNotEqual(structure_faults(OpenApiDocument(json.loads(text.replace(right, wrong)))), [], wrong)

    def test_it_names_the_version_of_the_build(self):
        version = run_espalier("--version").stdout.split()[1]
        self.assertEqual(self.document.root["info"]["version"], version)

    def test_it_has_every_route_and_no_other(self):
        labels = {
            name.split('"')[1] for name in self.server.metrics() if name.startswith('espalier_requests_total{route="')
        }
        self.assertEqual({operation.route for operation in self.document.operations}, labels - {"other"})

    def test_it_has_every_method_and_no_other(self):
        methods = {}
        for operation in self.document.operations:
            methods.setdefault(operation.example_path(), []).append(operation.method)
        for path, described in methods.items():
            reply = self.server.request("DELETE", path)
            self.assertEqual(reply.status, 405)
            self.assertEqual(
                list(self.document.response_faults({"$ref": "#/components/responses/MethodNotAllowed"}, reply)), []
            )
            self.assertEqual(
                set(reply.headers["allow"].split(", ")), {*described, *(["HEAD"] if "GET" in described else [])}
            )

    def test_examples_are_answered_as_it_says(self):
        posts = [operation for operation in self.document.operations if operation.body]
        for operation in posts:
            self.assertTrue(operation.examples(), operation.path)
            for name, body, answer in operation.examples():
                with self.subTest(path=operation.path, example=name):
                    self.assertEqual(list(schema_faults(operation.body_validator, body)), [])
                    reply = self.server.post(operation.path, body)
                    self.assert_described(operation, reply, 200)
                    if answer is not None:
                        self.assertTrue(close_to(answer, reply.json()), reply)

    def test_answers_of_get_routes(self):
        self.server.embed("salt")  # something to see in the figures and the timeline
        wait_until(lambda: self.server.get("/debug/timeline").json()["traceEvents"][7:], "the batch in the timeline")
        for operation in self.document.operations:
            if operation.method == "GET":
                self.assert_described(operation, self.server.get(operation.example_path()), 200)

    def test_what_a_client_has_already(self):
        for operation in self.document.operations:
            if operation.path.startswith("/page/") or operation.path in ("/", "/docs", "/openapi.json"):
                headers = {"If-None-Match": self.server.get(operation.example_path()).headers["etag"]}
                reply = self.server.request("GET", operation.example_path(), headers=headers)
                if 304 in operation.responses:
                    self.assert_described(operation, reply, 304)

    def test_what_is_not_there(self):
        not_found = {"$ref": "#/components/responses/NotFound"}
        self.assertEqual(list(self.document.response_faults(not_found, self.server.get("/nowhere"))), [])
        self.assert_described(self.document.operation("getModel"), self.server.get("/v1/models/other"), 404)
        self.assert_described(self.document.operation("getPageFile"), self.server.get("/page/other.js"), 404)

    def test_mistakes(self):
        for operation in self.document.operations:
            if not operation.body:
                continue
            tei = 422 in operation.responses and 500 not in operation.responses
            mistakes = [b"{", b"null", b"", b'{"input": "\xff"}', b"[" * 99, {}, {"input": 5, "inputs": 5, "query": 5}]
            for body in mistakes:
                self.assert_described(operation, self.server.post(operation.path, body), 422 if tei else 400)
            self.assert_described(
                operation, self.server.post(operation.path, {}, {"X-Request-Timeout-Ms": "soon"}), 422 if tei else 400
            )

    def test_mistakes_with_a_word_of_their_own(self):
        long, many = "salt " * 3000, ["a"] * 2049
        for operation_id, body, status in (
            ("createEmbeddings", {"input": []}, 400),
            ("teiEmbed", {"inputs": []}, 400),
            ("rerank", {"query": "a", "texts": []}, 400),
            ("createEmbeddings", {"input": long, "truncate": False}, 400),
            ("teiEmbed", {"inputs": long, "truncate": False}, 413),
            ("rerank", {"query": "a", "texts": [long], "truncate": False}, 413),
            ("rerank", {"query": "a", "texts": [5]}, 422),
            ("score", {"text_1": "a", "text_2": many}, 400),
            ("teiTokenize", {"inputs": many}, 413),
        ):
            operation = self.document.operation(operation_id)
            self.assert_described(operation, self.server.post(operation.path, body), status)

    def test_bodies_that_are_not_json(self):
        for operation in self.document.operations:
            if operation.body:
                for headers in ({"Content-Type": "text/plain"}, {"Content-Encoding": "zstd"}):
                    self.assert_described(operation, self.server.post(operation.path, b"{}", headers), 415)

    def test_heads_that_are_too_large_or_malformed(self):
        for operation in self.document.operations:
            line = f"{operation.method} {operation.example_path()} HTTP/1.1\r\nHost: t\r\n".encode()
            self.assert_described(operation, self.server.exchange(line + b"X: a\r\n" * 200 + b"\r\n"), 431)
            self.assert_described(operation, self.server.exchange(line + b"Host: t\r\n\r\n"), 400)

    def test_time_that_is_up(self):
        for operation in self.document.operations:
            if operation.body:
                for body in variants(operation, large_body(operation)):
                    reply = self.server.post(operation.path, body, {"X-Request-Timeout-Ms": "1"})
                    self.assert_described(operation, reply, 504)


class LimitsTest(OpenApiTest):
    def test_bodies_that_are_too_large(self):
        server = self.start("--max-body-mb", "1")
        for operation in self.document_of(server).operations:
            if operation.body:
                head = f"POST {operation.path} HTTP/1.1\r\nHost: t\r\nContent-Length: 9999999\r\n\r\n"
                self.assert_described(operation, server.exchange(head.encode()), 413)
        server.stop()

    def test_a_full_queue(self):
        server = self.start(*SLOW, "--max-queue", "8")
        document = self.document_of(server)
        blocker = server.in_background("/v1/embeddings", blocker_body(8))
        wait_until(lambda: server.waiting() > 0, "the blocker in the queue")
        many = [f"{i}" for i in range(8)]
        bodies = {
            "createEmbeddings": {"input": many},
            "rerank": {"query": "a", "documents": many},
            "teiEmbed": {"inputs": many},
            "score": {"text_1": "a", "text_2": many},
            "cohereEmbedV2": {"texts": many},
            "teiEmbedAll": {"inputs": many},
            "teiSimilarity": {"inputs": {"source_sentence": "a", "sentences": many[1:]}},
        }
        for operation_id, body in bodies.items():
            operation = document.operation(operation_id)
            for variant in variants(operation, body):
                self.assert_described(operation, server.post(operation.path, variant), 429)
        self.assertTrue(blocker.running(), "the blocker was too short to see anything")
        self.assertEqual(blocker.result().status, 200)
        server.stop()

    def test_more_than_the_queue_takes(self):
        server = self.start("--max-queue", "8")
        document = self.document_of(server)
        nine = [f"{i}" for i in range(9)]
        for operation_id, body, status in (
            ("createEmbeddings", {"input": nine}, 400),
            ("teiEmbed", {"inputs": nine}, 413),
            ("rerank", {"query": "a", "texts": nine}, 413),
        ):
            operation = document.operation(operation_id)
            self.assert_described(operation, server.post(operation.path, body), status)
        server.stop()

    def test_the_end_of_the_server(self):
        admin_port = free_port()
        server = self.start(*SLOW, "--drain-timeout", "1", "--admin-port", str(admin_port))
        document = self.document_of(server)
        admin = AdminPort(server, admin_port)
        waiting = []
        blocker = server.in_background("/v1/embeddings", blocker_body(256))
        wait_until(lambda: admin.waiting() > 0, "the blocker in the queue")
        for operation in document.operations:
            if operation.body and operation.id not in WITHOUT_QUEUE:
                for body in variants(operation, large_body(operation)):
                    waiting.append((operation, server.in_background(operation.path, body)))
        wait_until(lambda: admin.waiting() >= 50 * len(waiting), "all requests in the queue")
        server.send_signal()
        for operation_id in ("getReadiness", "getHealth"):
            operation = document.operation(operation_id)
            wait_until(lambda path=operation.path: admin.get(path).status == 503, "the drain")
            self.assert_described(operation, admin.get(operation.path), 503)
        for operation, request in waiting:
            self.assert_described(operation, request.result(), 503)
        self.assertEqual(blocker.result().status, 503)
        self.assertEqual(server.wait(), 0)


class AdminPort:
    """Requests to a server's --admin-port."""

    def __init__(self, server, port):
        self.request = lambda method, path: type(server).request(self, method, path)
        self.port = port

    def get(self, path):
        return self.request("GET", path)

    def waiting(self):
        lines = self.get("/metrics").body.decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("espalier_queue_tickets "))


class KeysTest(OpenApiTest, ServerTest):
    options = ("--api-key", "a-key", "--admin-key", "admins-key", "--debug-endpoints")

    def test_who_may_ask_what(self):
        document = self.document_of(self.server)
        for operation in document.operations:
            path, body = operation.example_path(), b"{}" if operation.body else None

            def reply(key=None):
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                return self.server.request(operation.method, path, body, headers)

            schemes = {name for need in operation.described["security"] for name in need}
            if not schemes:
                self.assert_described(operation, reply(), 200)
                continue
            self.assert_described(operation, reply(), 401)
            self.assert_described(operation, reply("another"), 401)
            self.assertNotIn(reply("admins-key").status, (401, 403))
            if schemes == {"adminKey"}:
                self.assert_described(operation, reply("a-key"), 403)
            else:
                self.assertNotIn(reply("a-key").status, (401, 403))


class RouteTest(OpenApiTest):
    def test_it_is_there_without_the_page(self):
        server = self.start("--no-page")
        self.assertEqual(server.get("/docs").status, 404)
        document = self.document_of(server)
        self.assert_described(document.operation("getOpenApi"), server.get("/openapi.json"), 200)
        self.assert_described(document.operation("getTrie"), server.get("/debug/trie"), 404)
        server.stop()


if __name__ == "__main__":
    unittest.main()
