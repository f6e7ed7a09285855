"""10 000 requests made from /openapi.json's schemas, right and wrong ones, on keep-alive connections: what fits the
schema is answered 200, or refused for a reason that no schema can say; what does not is refused; every answer is what
the document says; never a 5xx, a hang, or the end of the server.

ESPALIER_FUZZ_SEED and ESPALIER_FUZZ_REQUESTS choose other ones."""

import collections
import copy
import gzip
import http.client
import json
import os
import random
import re
import threading
import unittest

from espalier_server import Reply, ServerTest, time_limit, wait_until
from hostile_json import BodyGenerator, places, strict_json
from openapi_document import OpenApiDocument

SEED = int(os.environ.get("ESPALIER_FUZZ_SEED", "5"))
REQUESTS = int(os.environ.get("ESPALIER_FUZZ_REQUESTS", "10000"))
THREADS = 4
SECONDS_MAX = 20  # of one request

# Why a body that fits the schema may be refused: the model, the tokenizer, limits, fields that contradict each other.
REASONS = re.compile(
    "|".join(
        (
            r"tokens long; this model takes at most",
            r"is longer than the limit of \d+ tokens",
            r"leaves? no room",
            r"are allowed in one request",
            r"must be between 1 and \d+, the length of this model's embeddings",
            r"this model's ids end at \d+",
            r"no such `prompt_name`",
            r"has no token; every input needs",
            r"holds a special token \(id \d+\)",
            r"all say what comes before the input",
            r"an `instruction` is for queries",
            r"say different things",
            r"are the same; send one of them",
            r"holds no text",
            r"`chat_template_kwargs` is not served",
            r"name different encodings",
            r"token ids are used as they are",
            r"must be one text, or as many as",
            r"are cut at their end here, not at their start",
        )
    )
)


class Client:
    """A keep-alive connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=time_limit(SECONDS_MAX))

    def post(self, path, body, headers):
        self.connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
        answer = self.connection.getresponse()
        return Reply(answer.status, answer.getheaders(), answer.read())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


def faults(operation, body, reply):
    """What is wrong with the answer to `body`; [] if nothing is."""
    found = operation.faults(reply)
    if reply.status >= 500 or reply.status in (408, 409, 424, 429):
        found.append(f"a client's mistake is no {reply.status}")
    if found:
        return found
    try:
        fits = operation.accepts(strict_json(body))
    except ValueError:
        fits = None
    if reply.status == 200:
        return (
            []
            if fits
            else [
                "it is no JSON, and answered 200" if fits is None else "it does not fit the schema, and is answered 200"
            ]
        )
    error = reply.json()["error"]
    message = error if isinstance(error, str) else error["message"]
    if fits and not REASONS.search(message):
        return [f"it fits the schema, and is refused: {message}"]
    return []


class Fuzz:
    """`requests` requests to `server` by an OpenAPI document; what came of them."""

    def __init__(self, server, root, requests):
        self.server = server
        self.document = OpenApiDocument(root)
        self.posts = [operation for operation in self.document.operations if operation.body]
        self.statuses = collections.Counter()  # by path and status
        self.failure = None  # of the first request that went wrong, in words
        numbers = iter(range(requests))
        lock = threading.Lock()

        def work():
            with Client(server.port) as client:
                while self.failure is None:
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        return
                    self.one_request(client, number)

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def one_request(self, client, number):
        chance = random.Random(f"{SEED}/{number}")
        operation = self.posts[number % len(self.posts)]
        body = BodyGenerator(self.document, chance).body(operation.body["schema"])
        packed = chance.random() < 0.05
        try:
            reply = client.post(
                operation.path, gzip.compress(body) if packed else body, {"Content-Encoding": "gzip"} if packed else {}
            )
            found = faults(operation, body, reply)
            self.statuses[operation.path, reply.status] += 1
        except Exception as error:  # no answer, or one that is no HTTP, or no JSON
            reply, found = None, [f"{type(error).__name__}: {error}"]
        if found and self.failure is None:
            self.failure = (
                f"seed {SEED}, request {number}: POST {operation.path}\n{found}\nbody: {body[:2000]!r}\n"
                f"answer: {reply}\nsmaller: {self.smaller(operation, body)}"
            )

    def smaller(self, operation, body):
        """A body with less in it that still goes wrong, as far as there is one."""
        try:
            value = strict_json(body)
        except ValueError:
            return "not looked for: it is no JSON"

        def fails(candidate):
            text = json.dumps(candidate).encode()
            try:
                with Client(self.server.port) as client:
                    return bool(faults(operation, text, client.post(operation.path, text, {})))
            except (OSError, http.client.HTTPException):
                return True

        index = 0
        for _ in range(300):
            if index >= len(places(value)):
                break
            candidate = copy.deepcopy(value)
            container, key = places(candidate)[index]
            del container[key]
            if fails(candidate):
                value = candidate
            else:
                index += 1
        return json.dumps(value)[:1000]

    def counts(self, path):
        """Requests to `path` that were answered 200, and that were refused."""
        answered = self.statuses[path, 200]
        return answered, sum(count for (of, _), count in self.statuses.items() if of == path) - answered


class FuzzTest(ServerTest):
    options = ("--access-log", "off")

    def test_ten_thousand_requests(self):
        print(f"ESPALIER_FUZZ_SEED={SEED} ESPALIER_FUZZ_REQUESTS={REQUESTS}", flush=True)
        fuzz = Fuzz(self.server, self.root(), REQUESTS)
        self.assertIsNone(fuzz.failure, fuzz.failure)
        for operation in fuzz.posts:
            # Were all refused, or none, it would show nothing.
            for count in fuzz.counts(operation.path):
                self.assertGreater(count, 0.15 * REQUESTS / len(fuzz.posts), operation.path)
        self.check_the_server()

    def test_a_document_that_is_wrong_is_found_out(self):
        for kind, name, path, wrong in (
            ("schemas", "InputOptions", ("properties", "prompt_name", "type"), "string"),  # null, too
            ("schemas", "ScoreOptions", ("properties", "max_tokens_per_doc", "minimum"), 0),
            ("schemas", "InputType", ("enum",), ["query", "code", None]),
            ("schemas", "DecodeRequest", ("required",), []),
            ("schemas", "TokenizeAnswer", ("items", "items", "properties", "start", "type"), "integer"),
            ("schemas", "Usage", ("properties",), {"prompt_tokens": {"type": "integer"}}),
            ("schemas", "TeiError", ("properties", "error_type", "enum"), ["Empty"]),
            ("headers", "XComputeTime", ("schema", "pattern"), "^[0-9]+ ms$"),
        ):
            root = self.root()
            place = root["components"][kind][name]
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = wrong
            with self.subTest(name=name):
                self.assertIsNotNone(Fuzz(self.server, root, 3000).failure)

    def root(self):
        return self.server.get("/openapi.json").json()

    def check_the_server(self):
        def idle():
            metrics = self.server.metrics()
            gauges = ("espalier_queue_tickets", "espalier_queue_tokens", "espalier_requests_in_progress")
            return all(metrics[name] == 0 for name in gauges) and metrics

        metrics = wait_until(idle, "gauges at zero")
        failed = {
            name: count for name, count in metrics.items() if re.search(r'espalier_requests_total\{.*status="5', name)
        }
        self.assertEqual(failed, {})
        self.assertEqual(metrics["espalier_batch_failures_total"], 0)
        self.assertEqual(self.server.get("/livez").status, 200)
        self.assertEqual(self.server.embed("still there").shape[0], 1)


if __name__ == "__main__":
    unittest.main()
