"""What web pages of other origins get: nothing without --cors-origin, and with it all that SDKs in a browser need."""

import tempfile
import unittest

from espalier_server import EspalierTest, MODEL, run_espalier

EMBEDDINGS = "/v1/embeddings"
PAGE = "https://app.example.com"
ASK = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


def cors_fields(reply):
    return {name for name in reply.headers if name.startswith("access-control-") or name == "vary"}


class CorsTest(EspalierTest):
    def start_with_key(self, *options):
        file = tempfile.NamedTemporaryFile("w", suffix=".keys")
        self.addCleanup(file.close)
        file.write("shop secret\n")
        file.flush()
        return self.start("--api-key-file", file.name, *options)

    def test_off_unless_named(self):
        server = self.start()
        self.assertEqual(server.request("OPTIONS", EMBEDDINGS, headers={"Origin": PAGE, **ASK}).status, 405)
        self.assertEqual(cors_fields(server.post(EMBEDDINGS, {"input": "a"}, {"Origin": PAGE})), set())
        server.stop()

    def test_pages_of_a_named_origin(self):
        server = self.start_with_key("--cors-origin", PAGE, "--cors-origin", "http://localhost:3000")
        for origin in (PAGE, "http://localhost:3000"):
            asked = server.request("OPTIONS", EMBEDDINGS, headers={"Origin": origin, **ASK})
            self.assertEqual(asked.status, 204)
            self.assertEqual(asked.body, b"")
            self.assertEqual(asked.headers["access-control-allow-origin"], origin)
            allowed = {name.strip().lower() for name in asked.headers["access-control-allow-headers"].split(",")}
            self.assertEqual(allowed, {"authorization", "content-type", "x-request-id", "x-request-timeout-ms",
                                       "x-espalier-affinity", "traceparent", "*"})
            self.assertGreater(int(asked.headers["access-control-max-age"]), 0)
            # The request itself needs the key; a page can read the refusal, too.
            refused = server.post(EMBEDDINGS, {"input": "a"}, {"Origin": origin})
            self.assert_error(refused, 401)
            self.assertEqual(refused.headers["access-control-allow-origin"], origin)
            answer = server.post(EMBEDDINGS, {"input": "a"}, {"Origin": origin, "Authorization": "Bearer secret"})
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.headers["access-control-allow-origin"], origin)
            self.assertEqual(answer.headers["vary"], "Origin")
            exposed = answer.headers["access-control-expose-headers"].split(", ")
            self.assertLessEqual({"x-request-id", "retry-after", "x-espalier-tokens", "x-espalier-new-rows"},
                                 set(exposed))
        stranger = server.request("OPTIONS", EMBEDDINGS, headers={"Origin": "https://evil.example", **ASK})
        self.assertEqual(stranger.status, 405)
        self.assertNotIn("access-control-allow-origin", stranger.headers)
        server.stop()

    def test_all_origins_from_the_environment(self):
        server = self.start(env={"ESPALIER_CORS_ORIGIN": "*"})
        answer = server.post(EMBEDDINGS, {"input": "a"}, {"Origin": "http://anything"})
        self.assertEqual(answer.headers["access-control-allow-origin"], "*")
        server.stop()

    def test_what_is_no_origin_is_refused_at_the_start(self):
        done = run_espalier("serve", "--port", 0, "--model", MODEL, "--cors-origin", "app.example.com/page")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--cors-origin", done.stderr)
        self.assertIn("https://app.example.com", done.stderr)


if __name__ == "__main__":
    unittest.main()
