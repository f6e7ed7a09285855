"""Probes and metrics: on the API's port, or on one of their own that outlives it in a drain."""

import http.client
import tempfile
import unittest

from espalier_server import MODEL, EspalierTest, free_port, random_inputs, run_espalier, time_limit, wait_until

PROBES = ("/livez", "/readyz", "/health", "/metrics")
DEBUG = ("/debug/timeline", "/debug/trie", "/debug/trie.svg")


def fetch(port, path, host="127.0.0.1"):
    """(status, body)"""
    connection = http.client.HTTPConnection(host, port, timeout=time_limit(30))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class AdminPortTest(EspalierTest):
    def keys(self):
        file = tempfile.NamedTemporaryFile("w", suffix=".keys")
        self.addCleanup(file.close)
        file.write("shop secret\n")
        file.flush()
        return file.name

    def test_without_it_probes_are_open_on_the_port_and_debug_needs_a_key(self):
        server = self.start("--api-key-file", self.keys(), "--debug-endpoints")
        for path in PROBES:
            self.assertEqual(server.get(path).status, 200, path)
        self.assertEqual(server.get("/livez").json(), {"status": "ok"})
        self.assertEqual(server.get("/readyz").json(), {"status": "ok"})
        for path in DEBUG:
            self.assert_error(server.get(path), 401)
        server.stop()

    def test_with_it_they_are_there_and_nowhere_else(self):
        admin = free_port()
        server = self.start("--api-key-file", self.keys(), "--debug-endpoints", "--admin-port", admin)
        for path in PROBES + DEBUG:
            self.assertEqual(fetch(admin, path)[0], 200, path)
        for path in PROBES:
            self.assert_error(server.get(path), 404)
        for path in DEBUG:  # there too, for the page, but not without an admin's key
            self.assert_error(server.get(path), 401)
        for path in ("/v1/models", "/v1/embeddings"):
            self.assertEqual(fetch(admin, path)[0], 404, path)
        self.assertIn(f"probes and metrics are at http://127.0.0.1:{admin}", server.log_text())
        server.stop()
        with self.assertRaises(ConnectionRefusedError):
            fetch(admin, "/livez")

    def test_it_may_have_another_address(self):
        admin = free_port()
        server = self.start("--admin-port", admin, "--admin-host", "127.0.0.2")
        self.assertEqual(fetch(admin, "/livez", "127.0.0.2")[0], 200)
        with self.assertRaises(ConnectionRefusedError):
            fetch(admin, "/livez")
        server.stop()

    def test_while_draining_it_is_alive_and_not_ready(self):
        admin = free_port()
        server = self.start("--admin-port", admin, "--threads", 1, "--max-batch-tokens", 2048,
                            "--drain-timeout", int(time_limit(60)))
        busy = server.in_background("/v1/embeddings", {"input": random_inputs(6, 2000, seed=5)})
        wait_until(lambda: "espalier_queue_tickets 0\n" not in fetch(admin, "/metrics")[1], "the request in the queue")
        self.assertEqual(fetch(admin, "/readyz")[0], 200)
        server.send_signal()
        status, body = wait_until(lambda: (answer := fetch(admin, "/readyz"))[0] == 503 and answer, "the drain")
        self.assertEqual(body, '{"status":"draining"}')
        self.assertEqual(fetch(admin, "/livez"), (200, '{"status":"ok"}'))
        self.assertEqual(fetch(admin, "/metrics")[0], 200)
        self.assertTrue(busy.running(), "the request was done before the drain was seen")
        self.assertEqual(busy.result().status, 200)
        self.assertEqual(server.wait(), 0, server.log_text())

    def test_port_in_use_is_named_before_the_model_is_loaded(self):
        server = self.start()
        done = run_espalier("serve", "--port", 0, "--model", MODEL, "--admin-port", server.port)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--admin-port", done.stderr)
        server.stop()


if __name__ == "__main__":
    unittest.main()
