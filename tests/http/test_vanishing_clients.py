"""32 clients send 10 000 requests (ESPALIER_VANISHING_REQUESTS) and do not wait for all of them: some close their
connection after a random while, some set a deadline that may pass, some send a text that others send too. Whoever
waits gets the right answer, once; a deadline gives 200 or 504; the queue's gauges are back at zero when all is over.
Then the same traffic again and SIGTERM at a random moment: whole answers or none, exit code 0, nothing left behind.
"""

import base64
import collections
import json
import os
import random
import socket
import threading
import time
import unittest

import numpy as np

from espalier_server import EspalierTest, random_inputs, read_answer, time_limit, wait_until

REQUESTS = int(os.environ.get("ESPALIER_VANISHING_REQUESTS", "10000"))
CLIENTS = 32
TEXTS = [f"Instruct: find what answers the question\nQuery: {text}" for text in
         ("salt", "ships and timber", "what is an espalier", "gravity", "the capital of China", "今日は", "x", "x y")]
LONG = random_inputs(2, 1500, seed=61)  # keeps the worker busy, so that others wait


def post(body, *headers):
    body = json.dumps(body).encode()
    lines = ["POST /v1/embeddings HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Client(threading.Thread):
    def __init__(self, port, expected, seed, requests, signalled):
        super().__init__(daemon=True)
        self.port = port
        self.expected = expected
        self.rng = random.Random(seed)
        self.requests = requests
        self.signalled = signalled
        self.outcomes = collections.Counter()
        self.failures = []

    def run(self):
        for _ in range(self.requests):
            kind = self.rng.choices(("waits", "vanishes", "deadline", "long, vanishes"), (6, 2, 2, 0.3))[0]
            try:
                self.send(kind)
            except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError) as error:
                if not self.signalled.is_set():
                    self.failures.append(f"{kind}: {error!r}")
                self.outcomes["gone"] += 1
                return
            except Exception as error:  # whatever went wrong is the result
                self.failures.append(f"{kind}: {error!r}")
                return

    def send(self, kind):
        indices = [self.rng.randrange(len(TEXTS)) for _ in range(self.rng.randrange(1, 7))]
        body = {"input": LONG if kind.startswith("long") else [TEXTS[i] for i in indices], "encoding_format": "base64"}
        headers = [f"X-Request-Timeout-Ms: {self.rng.randrange(1, 120)}"] if kind == "deadline" else []
        with socket.create_connection(("127.0.0.1", self.port), timeout=time_limit(60)) as connection:
            connection.sendall(post(body, *headers))
            if kind.endswith("vanishes"):
                time.sleep(self.rng.uniform(0, 0.06))
                self.outcomes["vanished"] += 1
                return
            reply = read_answer(connection)
            if reply is None:
                if not self.signalled.is_set():
                    self.failures.append(f"{kind}: closed without an answer")
                self.outcomes["no answer"] += 1
                return
            self.check(kind, indices, reply)
            # Nothing may follow the one answer.
            connection.settimeout(0.001)
            try:
                if connection.recv(1):
                    self.failures.append(f"{kind}: more than one answer")
            except (TimeoutError, ConnectionResetError):
                pass

    def check(self, kind, indices, reply):
        self.outcomes[reply.status] += 1
        if reply.status == 200:
            vectors = [np.frombuffer(base64.b64decode(entry["embedding"]), "<f4") for entry in reply.json()["data"]]
            if len(vectors) != len(indices) or np.abs(vectors - self.expected[indices]).max() > 1e-5:
                self.failures.append(f"{kind}: wrong vectors for {indices}")
            return
        allowed = {504} if kind == "deadline" else set()
        if self.signalled.is_set():
            allowed |= {503}
        if reply.status not in allowed:
            self.failures.append(f"{kind}: {reply!r}")


class VanishingClientsTest(EspalierTest):
    def setUp(self):
        self.server = self.start("--drain-timeout", "600")
        self.expected = self.server.embed(TEXTS)
        self.signalled = threading.Event()

    def start_clients(self, requests, seed):
        clients = [Client(self.server.port, self.expected, 1000 * seed + i, requests // CLIENTS, self.signalled)
                   for i in range(CLIENTS)]
        for client in clients:
            client.start()
        return clients

    def finish(self, clients):
        outcomes = collections.Counter()
        failures = []
        for client in clients:
            client.join(time_limit(300))
            self.assertFalse(client.is_alive(), "a client still waits")
            outcomes += client.outcomes
            failures += client.failures
        print(dict(outcomes))
        self.assertEqual(failures[:5], [])
        return outcomes

    def test_nothing_is_lost_and_nothing_is_left(self):
        outcomes = self.finish(self.start_clients(REQUESTS, seed=1))
        self.assertEqual(sum(outcomes.values()), REQUESTS // CLIENTS * CLIENTS)
        for outcome in (200, 504, "vanished"):
            self.assertGreater(outcomes[outcome], 0, outcome)
        for gauge in ("espalier_queue_tickets", "espalier_queue_tokens"):
            wait_until(lambda gauge=gauge: self.server.metric(gauge) == 0, f"{gauge} back at 0")
        metrics = self.server.metrics()
        self.assertEqual(metrics["espalier_batch_failures_total"], 0)
        np.testing.assert_allclose(self.server.embed(TEXTS), self.expected, atol=1e-5)
        self.server.stop()

    def test_sigterm_at_a_random_moment(self):
        clients = self.start_clients(REQUESTS, seed=2)
        time.sleep(random.uniform(0.05, 2.0))
        self.signalled.set()
        self.server.send_signal()
        self.finish(clients)
        self.assertEqual(self.server.wait(), 0)
        self.assertNotIn("were answered 503", self.server.log_text())


if __name__ == "__main__":
    unittest.main()
