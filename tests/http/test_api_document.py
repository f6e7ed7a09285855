"""docs/API.md: its examples are what the server answers, and its table of routes says which need a key.

Numbers are compared to six decimals, other values exactly. What is made anew for each request or server is left out.
"""
import json
import math
import re
import unittest
from pathlib import Path

from espalier_server import ServerTest

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "API.md").read_text(encoding="utf-8")
NEW_EACH_TIME = {"id", "created", "uptime_seconds", "requests_total", "tokens_total", "computed_rows_total",
                 "rows_saved_total", "tokenization_workers", "version"}
KEY = "a-key-of-the-test"


def sections():
    """(title, text) of each `## ` section."""
    for text in re.split(r"^## ", DOCUMENT, flags=re.MULTILINE)[1:]:
        yield text.split("\n", 1)[0], text


def requests_shown():
    """(path, request, answer as text) of each "From `{…}`:" and the block behind it."""
    for title, text in sections():
        named = re.match(r"POST (/[\w/]+)", title)
        path = named.group(1) if named else "/v1/embeddings"  # a section on several routes
        for request, answer in re.findall(r"From\s+`(\{.*?\})`:\n\n```(?:json)?\n(.*?)```", text, re.DOTALL):
            yield "/decode" if '"ids"' in request else path, json.loads(request), answer


def routes_shown():
    """(method, path, "yes", "no" or "an admin's") of the table of routes."""
    text = dict(sections())["Routes"]
    for paths, method, key in re.findall(r"^\| (.*?) \| (GET|POST) \|.*?\| (yes|no|an admin's) \|", text, re.MULTILINE):
        for path in re.findall(r"`([^`]+)`", paths):
            yield method, path, key


class ApiDocumentTest(ServerTest):
    def assert_alike(self, shown, real, where):
        if isinstance(shown, dict):
            self.assertEqual(list(shown), list(real), where)
            for name in shown:
                if name not in NEW_EACH_TIME:
                    self.assert_alike(shown[name], real[name], f"{where}.{name}")
        elif isinstance(shown, list):
            self.assertEqual(len(shown), len(real), where)
            for i, (left, right) in enumerate(zip(shown, real)):
                self.assert_alike(left, right, f"{where}[{i}]")
        elif isinstance(shown, float) or isinstance(real, float):
            self.assertTrue(math.isclose(shown, real, abs_tol=1e-6), f"{where}: shown is {shown}, got {real}")
        else:
            self.assertEqual(shown, real, where)

    def test_examples_are_what_is_answered(self):
        shown = list(requests_shown())
        self.assertGreaterEqual(len(shown), 11)
        for path, request, answer in shown:
            with self.subTest(path=path, request=request):
                reply = self.server.post(path, request)
                self.assertEqual(reply.status, 200, reply)
                if answer.startswith('"trie"'):
                    self.assert_alike(json.loads("{" + answer + "}"), {"trie": reply.json()["trie"]}, path)
                elif "…" in answer:  # the first numbers of each vector
                    vectors = json.loads(answer.replace(", …", ""))
                    real = [[vector[:len(first)] for vector, first in zip(*pair)] for pair in zip(reply.json(), vectors)]
                    self.assert_alike(vectors, real, path)
                else:
                    self.assert_alike(json.loads(answer), reply.json(), path)

    def test_gets_answer_as_shown(self):
        for path in ("/v1/models", "/info", "/stats"):
            text = next(text for title, text in sections() if re.match(rf"GET {path}\b", title))
            shown = json.loads(re.search(r"```json\n(.*?)```", text, re.DOTALL).group(1))
            self.assert_alike(shown, self.server.get(path).json(), path)

    def test_routes_need_the_keys_that_the_table_says(self):
        shown = list(routes_shown())
        self.assertGreaterEqual(len(shown), 30)
        server = self.start("--api-key", KEY, "--debug-endpoints")
        for method, path, key in shown:
            path = path.replace("{id}", "espalier-mini").replace("/*", "/app.js")
            with self.subTest(path=path):
                body = {} if method == "POST" else None
                without = server.request(method, path, body)
                self.assertEqual(without.status == 401, key != "no", without)
                with_key = server.request(method, path, body, {"Authorization": f"Bearer {KEY}"})
                self.assertEqual(with_key.status == 403, key == "an admin's", with_key)
                self.assertNotEqual(with_key.status, 401)

    def test_cost_is_as_shown(self):
        shown = dict(re.findall(r"^(x-espalier-[\w-]+): (\d+)$", DOCUMENT, re.MULTILINE))
        body = json.loads(re.search(r"are those of `(\{.*?\})`", DOCUMENT).group(1))
        headers = self.server.post("/v1/embeddings", body).headers
        self.assertEqual(shown, {name: headers[name] for name in ("x-espalier-tokens", "x-espalier-new-rows")})


if __name__ == "__main__":
    unittest.main()
