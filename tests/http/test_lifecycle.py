"""From start-up to exit: what stops a server from starting, what happens to requests when it ends, when the queue is
full, when time is up, and when a client goes away.

Several tests keep the worker busy with a *blocker*: a request of many long inputs that share nothing, on one compute
thread, which takes seconds. What comes behind it waits in the queue, and the queue's gauge tells when it is there."""

import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from espalier_server import (BINARY, EspalierTest, free_port, random_inputs, read_answer, run_espalier, time_limit,
                             wait_until)

EMBEDDINGS = "/v1/embeddings"
BLOCKER_TOKENS = 2000
SLOW = ("--threads", "1", "--max-batch-tokens", "2048")  # one input of the blocker a batch
# On a slow machine a pass of the blocker is long enough for short inputs to run within it; this one waits.
TOO_LONG_TO_OVERTAKE = "salt " * (BLOCKER_TOKENS // 4)


class LifecycleTest(EspalierTest):
    def block(self, server, inputs, seed=31):
        """Sends a blocker of `inputs` inputs; it is admitted, and computed from now on, when this returns."""
        blocker = server.in_background(EMBEDDINGS, {"input": random_inputs(inputs, BLOCKER_TOKENS, seed)})
        wait_until(lambda: server.waiting() > 0, "the blocker in the queue")
        return blocker


class StartTest(LifecycleTest):
    def test_a_port_in_use_is_an_error(self):
        server = self.start()
        started = time.monotonic()
        second = run_espalier("serve", "--port", server.port)
        self.assertEqual(second.returncode, 1)
        self.assertIn(str(server.port), second.stderr)
        self.assertIn("in use", second.stderr)
        self.assertNotIn("is ready", second.stderr)
        self.assertLess(time.monotonic() - started, time_limit(10))
        self.assertEqual(server.get("/health").json(), {"status": "ok"})
        server.stop()

    def test_a_port_is_free_again_after_the_end(self):
        first = self.start()
        first.embed("salt")
        first.stop()
        second = self.start("--port", str(first.port))
        self.assertEqual(second.port, first.port)
        second.stop()

    def test_an_address_that_is_not_ours_is_an_error(self):
        done = run_espalier("serve", "--host", "203.0.113.77", "--port", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("203.0.113.77", done.stderr)

    def test_the_bundled_model_is_found_from_any_working_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            for cwd in ("/", folder):
                server = self.start(model=None, cwd=cwd)
                self.assertEqual(server.get("/v1/models").json()["data"][0]["id"], "espalier-mini")
                server.stop()

    def test_an_installed_binary_finds_its_model(self):
        with tempfile.TemporaryDirectory() as prefix:
            subprocess.run(["cmake", "--install", os.environ["ESPALIER_BUILD_DIR"], "--prefix", prefix], check=True,
                           capture_output=True, timeout=time_limit(60))
            installed = os.path.join(prefix, "bin", os.path.basename(BINARY))
            server = self.start(model=None, binary=installed, cwd="/")
            self.assertIn(f"loaded {os.path.realpath(prefix)}/share/espalier/models/espalier-mini", server.log_text())
            self.assertEqual(server.embed("salt").shape, (1, 256))
            server.stop()

    def test_the_kernels_in_use_are_logged_and_fit_the_cpu(self):
        server = self.start()
        self.assertRegex(server.log_text(), r"kernels: native f32 \(\w+ kernels\)")
        server.stop()
        server = self.start("--gemm", "openblas")
        self.assertRegex(server.log_text(), r"kernels: openblas f32 \(\w+ kernels\)")
        self.assertNotIn("Prescott", server.log_text())
        server.stop()

    def test_a_number_format_that_the_backend_lacks_is_refused_with_advice(self):
        done = run_espalier("serve", "--gemm", "openblas", "--dtype", "bf16")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--gemm openblas computes in f32 alone; give --dtype f32, or --gemm native", done.stderr)


class EndTest(LifecycleTest):
    def test_sigterm_and_sigint_end_with_exit_code_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.start()
            server.embed("salt")
            server.stop(number)

    def test_idle_connections_do_not_delay_the_end(self):
        server = self.start()
        idle = [server.connect() for _ in range(20)]
        used = http.client.HTTPConnection("127.0.0.1", server.port, timeout=time_limit(60))
        used.request("GET", "/health")
        self.assertEqual(used.getresponse().read(), b'{"status":"ok"}')
        started = time.monotonic()
        server.stop()
        self.assertLess(time.monotonic() - started, time_limit(5))
        for connection in idle:
            self.assertEqual(connection.recv(1), b"")
            connection.close()
        used.close()

    def test_sigterm_loses_no_accepted_request_and_health_turns(self):
        server = self.start(*SLOW, "--drain-timeout", int(time_limit(60)))
        blocker = self.block(server, 6)
        requests = [server.in_background(EMBEDDINGS, {"input": [f"request {i} input {j}" for j in range(100)]})
                    for i in range(8)]
        # Seven of them and the blocker are fewer.
        wait_until(lambda: server.waiting() >= 800, "eight requests in the queue")
        server.send_signal()

        def unready():
            try:
                return server.get("/health").status == 503
            except ConnectionError:
                return True
        wait_until(unready, "no more health")
        self.assertTrue(blocker.running(), "the blocker was too short to see anything")
        for request in [blocker, *requests]:
            self.assertEqual(request.result().status, 200)
        self.assertEqual(server.wait(), 0)

    def test_what_does_not_finish_in_the_drain_timeout_is_answered_503(self):
        server = self.start(*SLOW, "--drain-timeout", "1")
        blocker = self.block(server, 256)
        waiting = [server.in_background(EMBEDDINGS, {"input": [TOO_LONG_TO_OVERTAKE] * 300}) for _ in range(2)]
        wait_until(lambda: server.waiting() >= 600, "two requests in the queue")
        server.send_signal()
        for request in [blocker, *waiting]:
            reply = request.result()
            self.assert_error(reply, 503)
            self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
        self.assertEqual(server.wait(), 0)
        self.assertRegex(server.log_text(), r"\b3 requests did not finish within 1 s")

    def test_slow_senders_and_readers_do_not_outlast_the_drain_timeout(self):
        admin_port = free_port()
        server = self.start("--drain-timeout", "1", "--admin-port", admin_port)
        sender, reader = server.connect(), server.connect()
        sender.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n{")
        body = json.dumps({"input": ["a"] * 1000}).encode()  # whose answer no socket holds as a whole
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall((b"POST /v1/embeddings HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
                        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)) * 5)
        scraper = socket.create_connection(("127.0.0.1", admin_port), timeout=time_limit(60))
        scraper.settimeout(1)
        try:
            while True:  # until neither side reads any more
                scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: t\r\n\r\n" * 100)
        except TimeoutError:
            pass
        wait_until(lambda: "status=200" in server.log_text(), "an answer")
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(time_limit(20)), 0)
        self.assertLess(time.monotonic() - started, time_limit(10))
        self.assert_error(read_answer(sender), 503)
        for connection in (sender, reader, scraper):
            connection.close()

    def test_a_second_signal_ends_at_once(self):
        server = self.start(*SLOW)
        self.block(server, 256)
        server.send_signal()
        wait_until(lambda: "a second signal ends at once" in server.log_text(), "the first signal's log line")
        server.send_signal()
        self.assertEqual(server.wait(seconds_max=10), 128 + signal.SIGTERM)


class QueueTest(LifecycleTest):
    def test_a_full_queue_is_429_with_retry_after(self):
        server = self.start(*SLOW, "--max-queue", "8")
        blocker = self.block(server, 8)
        reply = server.post(EMBEDDINGS, {"input": ["salt"] * 8})
        self.assert_error(reply, 429)
        self.assertEqual(reply.error()["type"], "rate_limit_error")
        self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
        self.assertEqual(blocker.result().status, 200)
        self.assertEqual(server.embed(["salt"] * 8).shape[0], 8)
        server.stop()

    def test_more_inputs_than_the_queue_holds_is_400_even_when_it_is_empty(self):
        server = self.start("--max-queue", "4")
        self.assertEqual(server.embed(["salt"] * 4).shape[0], 4)
        self.assert_error(server.post(EMBEDDINGS, {"input": ["salt"] * 5}), 400, "input", message="4")
        reply = server.post("/v1/rerank", {"query": "salt", "documents": ["salt"] * 5})
        self.assert_error(reply, 400, "documents", message="4")
        server.stop()

    def test_a_client_that_goes_away_is_dropped_before_it_is_planned(self):
        server = self.start(*SLOW)
        blocker = self.block(server, 8)
        body = json.dumps({"input": [f"never read {i} {TOO_LONG_TO_OVERTAKE}" for i in range(500)]}).encode()
        head = f"POST {EMBEDDINGS} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with server.connect() as connection:
            connection.sendall(head + body)
            wait_until(lambda: server.waiting() >= 500, "the request in the queue")
        wait_until(lambda: server.waiting() < 500, "the request out of the queue")
        self.assertTrue(blocker.running(), "the blocker was too short to see anything")
        self.assertEqual(blocker.result().status, 200)
        metrics = server.metrics()
        self.assertEqual(metrics["espalier_tokens_total"], 8 * BLOCKER_TOKENS)
        self.assertEqual(metrics["espalier_sequences_total"], 8)
        self.assertEqual(metrics[f'espalier_requests_total{{route="{EMBEDDINGS}",status="499"}}'], 1)
        server.stop()

    def test_time_is_up_for_the_running_and_for_the_waiting(self):
        server = self.start(*SLOW, "--request-timeout", "1")
        blocker = self.block(server, 256)
        waiting = server.in_background("/v1/rerank", {"query": "salt", "documents": [TOO_LONG_TO_OVERTAKE]})
        for request in (blocker, waiting):
            self.assert_error(request.result(), 504)
        wait_until(lambda: server.waiting() == 0, "an empty queue")
        wait_until(lambda: server.post(EMBEDDINGS, {"input": "salt"}).status == 200, "an answer after the timeouts")
        server.stop()


if __name__ == "__main__":
    unittest.main()
