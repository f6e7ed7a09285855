"""--api-key-file: who is let in, and who shares prefixes with whom."""

import os
import re
import tempfile
import unittest

from espalier_server import EspalierTest, ServerTest, run_espalier, wait_until

KEYS = """# name  key         weight
shop      shop-secret
wiki      wiki-secret 2.5
boss      boss-secret admin
"""
# Time for what two clients send at once to go into one batch.
GATHERING = ("--batch-window-ms", "500")


def key_file(text=KEYS):
    with tempfile.NamedTemporaryFile("w", suffix=".keys", delete=False) as file:
        file.write(text)
    return file.name


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


class KeysTest(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.file = key_file()
        cls.addClassCleanup(os.remove, cls.file)
        cls.options = ("--api-key-file", cls.file, "--api-key", "extra-secret", "--api-key", "other-secret",
                       "--admin-key", "ops-secret", "--debug-endpoints")
        super().setUpClass()

    def guarded(self, headers):
        yield self.server.post("/v1/embeddings", {"input": "a"}, headers)
        yield self.server.post("/v1/rerank", {"query": "a", "documents": ["b"]}, headers)
        for path in ("/v1/models", "/v1/models/espalier-mini", "/stats", "/info"):
            yield self.server.request("GET", path, headers=headers)

    def test_no_route_but_the_open_ones_answers_without_a_key(self):
        labels = (re.fullmatch(r'espalier_requests_total\{route="([^"]+)",status="200"\}', name)
                  for name in self.server.metrics())
        routes = {label.group(1) for label in labels if label} - {"other"}
        self.assertGreater(len(routes), 25)
        opened = set()
        for route in routes:
            path = route.replace("*", "espalier-mini")
            replies = [self.server.get(path), self.server.post(path, {"input": "a"})]
            statuses = {reply.status for reply in replies}
            if 401 not in statuses:
                opened.add(route)
            else:
                self.assertLessEqual(statuses, {401, 405}, route)
        # Files that hold no data are open, too: a browser cannot send a key with an address.
        pages = {route for route in opened if route in ("/", "/docs", "/openapi.json") or route.startswith("/page/")}
        self.assertEqual(opened - pages, {"/livez", "/readyz", "/health", "/metrics"})

    def test_debug_endpoints_need_an_admins_key(self):
        for path in ("/debug/timeline", "/debug/trie", "/debug/trie.svg"):
            self.assert_error(self.server.get(path), 401)
            self.assert_error(self.server.request("GET", path, headers=bearer("shop-secret")), 403,
                              code="admin_key_required", message="--admin-key")
            for key in ("boss-secret", "ops-secret"):
                self.assertEqual(self.server.request("GET", path, headers=bearer(key)).status, 200)

    def test_keys_of_options_are_as_good_as_those_of_the_file(self):
        for key in ("extra-secret", "other-secret", "ops-secret", "boss-secret"):
            for reply in self.guarded(bearer(key)):
                self.assertEqual(reply.status, 200, reply)

    def test_a_key_opens_every_route(self):
        for key in ("shop-secret", "wiki-secret"):
            for reply in self.guarded(bearer(key)):
                self.assertEqual(reply.status, 200, reply)

    def test_without_a_key_or_with_a_wrong_one_is_401(self):
        for headers in ({}, bearer("guessed"), bearer(""), bearer("shop-secret2"), {"Authorization": "shop-secret"},
                        {"X-API-Key": "shop-secret"}, {"Authorization": "Basic shop-secret"}):
            for reply in self.guarded(headers):
                self.assert_error(reply, 401, code="invalid_api_key", message="Authorization")
                self.assertEqual(reply.error()["type"], "authentication_error")
                self.assertEqual(reply.headers["www-authenticate"], "Bearer")

    def test_probes_need_none(self):
        self.assertEqual(self.server.get("/health").status, 200)
        self.assertEqual(self.server.get("/metrics").status, 200)
        self.assert_error(self.server.get("/nowhere"), 404)

    def test_strangers_are_refused_before_they_send_a_body(self):
        reply = self.server.exchange(b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n")
        self.assert_error(reply, 401)

    def test_refusals_are_counted(self):
        name = 'espalier_rejected_total{reason="unauthorized"}'
        before = self.server.metric(name)
        self.server.post("/v1/embeddings", {"input": "a"}, bearer("guessed"))
        wait_until(lambda: self.server.metric(name) == before + 1, "a refusal counted")


class SharingTest(EspalierTest):
    """Two keys send the same text at the same time: one batch, in which they share or do not."""

    def rows_of_two_clients(self, server):
        """How many times the text was computed."""
        text = "the same text from both of them, again and again and again"
        before = server.metrics()
        replies = [server.in_background("/v1/embeddings", {"input": text}, bearer(key))
                   for key in ("shop-secret", "wiki-secret") for _ in range(3)]
        for reply in replies:
            self.assertEqual(reply.result().status, 200)
        grown = {name: value - before[name] for name, value in server.metrics().items() if name in before}
        return grown["espalier_compact_tokens_total"] / (grown["espalier_tokens_total"] / len(replies))

    def rows_in_one_batch(self, *options):
        """The same for the fewest batches that come about: on a busy machine the clients may miss each other."""
        file = key_file()
        self.addCleanup(os.remove, file)
        server = self.start("--api-key-file", file, *GATHERING, *options)
        fewest = min(self.rows_of_two_clients(server) for _ in range(3))
        server.stop()
        return fewest

    def test_keys_do_not_share(self):
        self.assertEqual(self.rows_in_one_batch(), 2)

    def test_keys_share_when_told_to(self):
        self.assertEqual(self.rows_in_one_batch("--share-across-keys"), 1)


class FileTest(EspalierTest):
    def refused(self, text):
        file = key_file(text)
        self.addCleanup(os.remove, file)
        done = run_espalier("serve", "--port", "0", "--api-key-file", file)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(file, done.stderr)
        return done.stderr

    def test_mistakes_name_file_and_line_but_not_the_key(self):
        stderr = self.refused("shop secret1\nwiki secret1\n")
        self.assertIn("line 2", stderr)
        self.assertNotIn("secret1", stderr)
        self.assertIn("weight", self.refused("shop secret heavy\n"))
        self.assertIn("no key", self.refused("# later\n"))

    def test_a_missing_file_is_an_error(self):
        done = run_espalier("serve", "--port", "0", "--api-key-file", "/nonexistent/keys")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nonexistent/keys", done.stderr)


if __name__ == "__main__":
    unittest.main()
