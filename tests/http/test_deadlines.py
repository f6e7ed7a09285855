"""X-Request-Timeout-Ms and --request-timeout: until when a request is answered, and what it is told."""

import time
import unittest

from espalier_server import ServerTest, random_inputs, time_limit, wait_until

LONG = random_inputs(500, 500, seed=31)  # seconds of work for one thread
FIELD = "X-Request-Timeout-Ms"


class TimeoutHeaderTest(ServerTest):
    options = ("--threads", "1", "--max-batch-tokens", "512")

    def ask(self, value, path="/v1/embeddings"):
        body = {"input": "a"} if path == "/v1/embeddings" else {"query": "a", "documents": ["b"]}
        return self.server.post(path, body, {FIELD: value})

    def test_enough_time_is_enough(self):
        for path in ("/v1/embeddings", "/v1/rerank"):
            self.assertEqual(self.ask("86400000", path).status, 200)

    def test_what_is_no_number_of_milliseconds_is_400(self):
        for value in ("", "0", "-5", "1.5", "1e3", "soon", "86400001", "9" * 40):
            for path in ("/v1/embeddings", "/v1/rerank"):
                self.assert_error(self.ask(value, path), 400, param=FIELD, message=f"{FIELD}.*86400000")

    def test_two_of_them_are_400(self):
        reply = self.server.exchange(b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
                                     b"X-Request-Timeout-Ms: 5\r\nX-Request-Timeout-Ms: 6\r\n\r\n{}")
        self.assert_error(reply, 400, message=FIELD.lower())

    def test_too_little_time_is_504_with_the_mend(self):
        rejected = 'espalier_rejected_total{reason="deadline"}'
        before = self.server.metric(rejected)
        start = time.monotonic()
        reply = self.server.post("/v1/embeddings", {"input": LONG}, {FIELD: "100"})
        self.assert_error(reply, 504, message=f"100 ms.*{FIELD}.*fewer inputs")
        self.assertLess(time.monotonic() - start, time_limit(5))
        wait_until(lambda: self.server.metric(rejected) == before + 1, "a missed deadline counted")

    def test_time_to_send_the_body_counts(self):
        with self.server.connect() as connection:
            connection.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: 14\r\n"
                               b"Connection: close\r\nX-Request-Timeout-Ms: 100\r\n\r\n")
            time.sleep(0.3)
            connection.sendall(b'{"input": "a"}')
            self.assertIn(b" 504 ", connection.makefile("rb").readline())


class ServersTimeoutTest(ServerTest):
    options = ("--threads", "1", "--max-batch-tokens", "512", "--request-timeout", "1")

    def test_bounds_what_a_client_asks_for(self):
        reply = self.server.post("/v1/embeddings", {"input": LONG}, {FIELD: "60000"})
        self.assert_error(reply, 504, message="within 1 s")


if __name__ == "__main__":
    unittest.main()
