"""64 clients send 20 000 mixed requests (ESPALIER_STRESS_REQUESTS), a third of them malformed in many ways: every one
is answered with the right status, embeddings with the right vectors. Then the same traffic again, and SIGTERM in
the middle of it.

What "no accepted request is lost" means here, with nothing left to timing:
* a request that waits in the queue (its gauge says so) or that was told `100 Continue` when the signal comes has been
  accepted: it gets its answer, 200 or, for a malformed one, its 4xx;
* any other request gets its whole answer, or 503, or nothing at all because the server closed or refused the
  connection without having read it. Half an answer is a loss, and so is nothing before the signal.
"""

import base64
import collections
import gzip
import json
import multiprocessing
import os
import random
import socket
import threading
import unittest

import numpy as np

from espalier_server import SLOWDOWN, EspalierTest, random_inputs, read_answer, time_limit, wait_until

REQUESTS = int(os.environ.get("ESPALIER_STRESS_REQUESTS", "20000"))
PROCESSES, THREADS = 4, 16  # 64 clients
TEXTS = ["You are a careful librarian. " + text for text in
         ("Salt is a mineral.", "Ships carry timber and salt.", "An espalier is a tree.", "Gravity attracts bodies.",
          "What is the capital of China?", "naïve café", "今日は 👍", "x")]
# Beyond the heap that a busy server settles at; a sanitizer's allocator keeps freed memory on purpose.
GROWTH_BYTES_MAX = 100e6 if SLOWDOWN == 1 else 2e9


def http_request(method, path, body=b"", *headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body or method == "POST":
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def post(path, body, *headers):
    return http_request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), *headers)


def with_type(request, content_type):
    return request.replace(b"application/json", content_type)


def well_formed(rng):
    """(what, request, expected status, indices into TEXTS whose embeddings come back as base64 or None)."""
    kind = rng.randrange(8)
    indices = [rng.randrange(len(TEXTS)) for _ in range(rng.randrange(1, 5))]
    texts = [TEXTS[i] for i in indices]
    if kind <= 3:
        return "embeddings", post("/v1/embeddings", {"input": texts, "encoding_format": "base64"}), 200, indices
    if kind == 4:
        return "float embedding", post("/v1/embeddings", {"input": texts[0], "dimensions": 64}), 200, None
    if kind == 5:
        return "rerank", post("/v1/rerank", {"query": texts[0], "documents": texts}), 200, None
    if kind == 6:
        packed = gzip.compress(json.dumps({"input": texts, "encoding_format": "base64"}).encode())
        return "gzip", post("/v1/embeddings", packed, "Content-Encoding: gzip"), 200, indices
    return "get", http_request("GET", rng.choice(("/health", "/v1/models", "/metrics"))), 200, None


MALFORMED = [
    ("cut JSON", post("/v1/embeddings", b'{"input": "a'), 400),
    ("no JSON", post("/v1/rerank", b"hello"), 400),
    ("empty body", post("/v1/embeddings", b""), 400),
    ("deep nesting", post("/v1/embeddings", b"[" * 10_000), 400),
    ("invalid UTF-8", post("/v1/embeddings", b'{"input": "\xff\xfe"}'), 400),
    ("lone surrogate", post("/v1/embeddings", b'{"input": "\\ud800"}'), 400),
    ("NaN", post("/v1/embeddings", b'{"input": [NaN]}'), 400),
    ("no input", post("/v1/embeddings", {"model": "m"}), 400),
    ("wrong type", post("/v1/embeddings", {"input": {"a": 1}}), 400),
    ("empty array", post("/v1/embeddings", {"input": []}), 400),
    ("empty string", post("/v1/embeddings", {"input": ["a", ""]}), 400),
    ("too many inputs", post("/v1/embeddings", {"input": ["a"] * 2049}), 400),
    ("unknown token id", post("/v1/embeddings", {"input": [1, 99999]}), 400),
    ("huge token id", post("/v1/embeddings", b'{"input": [1e400]}'), 400),
    ("wrong dimensions", post("/v1/embeddings", {"input": "a", "dimensions": 10**6}), 400),
    ("too long", post("/v1/embeddings", {"input": [5] * 3000, "truncate": False}), 400),
    ("no documents", post("/v1/rerank", {"query": "a", "documents": []}), 400),
    ("wrong document", post("/v1/rerank", {"query": "a", "documents": [5]}), 400),
    ("negative top_n", post("/v1/rerank", {"query": "a", "documents": ["b"], "top_n": -1}), 400),
    ("malformed gzip", post("/v1/embeddings", b"no gzip at all", "Content-Encoding: gzip"), 400),
    ("length and chunks", post("/v1/embeddings", b"0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
    ("unknown route", post("/v1/embedding", {"input": "a"}), 404),
    ("unknown route", http_request("GET", "/favicon.ico"), 404),
    ("wrong method", http_request("GET", "/v1/embeddings"), 405),
    ("wrong method", post("/health", {}), 405),
    ("three gigabytes", http_request("GET", "/x").replace(b"GET /x", b"POST /v1/rerank").replace(
        b"\r\n\r\n", b"\r\nContent-Length: 3000000000\r\n\r\n"), 413),
    ("form", with_type(post("/v1/embeddings", b"input=a"), b"application/x-www-form-urlencoded"), 415),
]


def any_request(rng):
    if rng.randrange(3) == 0:
        return (*rng.choice(MALFORMED), None)
    return well_formed(rng)


class Client:
    """A client with one connection, which it keeps as long as the server does."""

    def __init__(self, port, expected):
        self.port = port
        self.expected = expected  # (len(TEXTS) × H)
        self.connection = None
        self.outcomes = collections.Counter()
        self.failures = []

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def exchange(self, request, expect_continue=False):
        """(accepted, Reply or None): accepted if the server has told us to continue."""
        if self.connection is None:
            self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=time_limit(60))
        accepted = False
        if expect_continue:
            head, body = request.split(b"\r\n\r\n", 1)
            self.connection.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
            go_on = b"HTTP/1.1 100 Continue\r\n\r\n"
            answer = self.connection.recv(len(go_on), socket.MSG_PEEK)
            accepted = answer == go_on
            if accepted:
                self.connection.recv(len(go_on))
                self.connection.sendall(body)
        else:
            self.connection.sendall(request)
        reply = read_answer(self.connection)
        if reply is None or reply.headers.get("connection") == "close":
            self.close()
        return accepted, reply

    def fail(self, what, reason):
        if len(self.failures) < 5:
            self.failures.append(f"{what}: {reason}")

    def check(self, what, reply, status, indices, also_503=False):
        self.outcomes[reply.status] += 1
        if reply.status != status:
            if not (also_503 and reply.status == 503):
                self.fail(what, f"{reply.status} instead of {status}: {reply.body[:300]!r}")
        elif indices is not None:
            vectors = [np.frombuffer(base64.b64decode(entry["embedding"]), "<f4") for entry in reply.json()["data"]]
            if len(vectors) != len(indices) or np.abs(vectors - self.expected[indices]).max() > 1e-5:
                self.fail(what, f"wrong vectors for {indices}")
        elif status >= 400 and not reply.error()["message"]:
            self.fail(what, "an error without a message")

    def send(self, requests, rng):
        """The first round: every request is answered."""
        for _ in range(requests):
            what, request, status, indices = any_request(rng)
            try:
                _, reply = self.exchange(request)
                if reply is None:
                    self.fail(what, "closed without an answer")
                else:
                    self.check(what, reply, status, indices)
            except Exception as error:  # whatever went wrong is the result
                self.fail(what, repr(error))
                self.close()
        self.close()

    def send_until_the_end(self, rng, signalled):
        """The second round: until the server is gone."""
        while True:
            what, request, status, indices = any_request(rng)
            # Asked of requests that are refused by their body alone, or not at all.
            expect_continue = (request.startswith(b"POST") and status in (200, 400) and what != "length and chunks"
                               and rng.random() < 0.5)
            accepted = False
            try:
                accepted, reply = self.exchange(request, expect_continue)
            except ConnectionRefusedError:
                if not signalled.is_set():
                    self.fail(what, "refused before the signal")
                return
            except (BrokenPipeError, ConnectionResetError):
                reply = None
                self.close()
            except Exception as error:
                self.fail(what, repr(error))
                return
            if reply is not None:
                self.check(what, reply, status, indices, also_503=signalled.is_set())
            elif accepted or not signalled.is_set():
                self.fail(what, "accepted and lost" if accepted else "closed before the signal")
                return
            else:
                self.outcomes["never read"] += 1


def run_clients(port, expected, seed, requests, signalled, results):
    """One process of clients; `signalled` is None in the first round."""
    clients = [Client(port, expected) for _ in range(THREADS)]
    threads = []
    for i, client in enumerate(clients):
        rng = random.Random(seed * THREADS + i)
        call = ((lambda client=client, rng=rng: client.send(requests // THREADS, rng)) if signalled is None
                else (lambda client=client, rng=rng: client.send_until_the_end(rng, signalled)))
        threads.append(threading.Thread(target=call))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((sum((client.outcomes for client in clients), collections.Counter()),
                 [failure for client in clients for failure in client.failures]))


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))


class StressTest(EspalierTest):
    @classmethod
    def setUpClass(cls):
        cls.processes = multiprocessing.get_context("spawn")

    def setUp(self):
        self.server = self.start("--drain-timeout", "600")  # not what is tested here
        self.expected = self.server.embed(TEXTS)

    def start_clients(self, requests, seed, signalled=None):
        """Starts the clients; returns a function that waits for (outcomes, failures)."""
        results = self.processes.Queue()
        workers = [self.processes.Process(target=run_clients, daemon=True, args=(
            self.server.port, self.expected, seed * PROCESSES + i, requests // PROCESSES, signalled, results))
            for i in range(PROCESSES)]
        for worker in workers:
            worker.start()

        def finish():
            outcomes, failures = collections.Counter(), []
            for _ in workers:
                part, failed = results.get(timeout=time_limit(170))
                outcomes += part
                failures += failed
            for worker in workers:
                worker.join()
            return outcomes, failures
        return finish

    def test_every_request_is_answered_with_the_right_status(self):
        warm_up = REQUESTS // 4
        outcomes, failures = self.start_clients(warm_up, seed=1)()
        settled = resident_bytes(self.server.process.pid)
        more, more_failures = self.start_clients(REQUESTS - warm_up, seed=2)()
        outcomes += more
        print(dict(outcomes), f"{settled / 1e6:.0f} MB resident, then", resident_bytes(self.server.process.pid) / 1e6)
        self.assertEqual(failures + more_failures, [])
        self.assertGreaterEqual(sum(outcomes.values()), REQUESTS - 2 * PROCESSES * THREADS)  # rounded down
        self.assertEqual(set(outcomes), {200, 400, 404, 405, 413, 415})
        self.assertLess(resident_bytes(self.server.process.pid) - settled, GROWTH_BYTES_MAX)

        metrics = self.server.metrics()
        self.assertEqual(metrics["espalier_queue_tickets"], 0)
        self.assertEqual(metrics["espalier_queue_tokens"], 0)
        self.assertEqual(metrics["espalier_batch_failures_total"], 0)
        self.assertEqual([name for name in metrics if 'status="5' in name or 'status="499' in name], [])
        self.server.stop()

    def test_sigterm_in_the_middle_loses_no_accepted_request(self):
        signalled = self.processes.Event()
        finish = self.start_clients(0, seed=3, signalled=signalled)
        answered = 'espalier_requests_total{route="/v1/embeddings",status="200"}'
        wait_until(lambda: self.server.metric(answered) > 500, "traffic")
        blocker = self.server.in_background("/v1/embeddings", {"input": random_inputs(40, 2000, seed=41)})
        # The clients' inputs are short: 64 × 4 of them are nowhere near this many tokens.
        wait_until(lambda: self.server.metric("espalier_queue_tokens") > 30 * 2000, "the blocker in the queue")
        large = [self.server.in_background("/v1/embeddings", {"input": [f"{i} {j}" for j in range(500)]})
                 for i in range(16)]
        # The clients wait for at most 4 inputs each and the blocker for 40: without one of these it would be less.
        wait_until(lambda: self.server.waiting() >= 16 * 500, "all large requests in the queue")
        signalled.set()
        self.server.send_signal()
        for request in [blocker, *large]:
            self.assertEqual(request.result().status, 200)
        outcomes, failures = finish()
        print(dict(outcomes))
        self.assertEqual(failures, [])
        self.assertEqual(self.server.wait(), 0)
        self.assertNotIn("were answered 503", self.server.log_text())


if __name__ == "__main__":
    unittest.main()
