"""Where requests go: which key each has, what becomes of large, compressed and broken ones, and which replicas are used."""

import gzip
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from fleet import CONFIG, HAPROXY, SOURCE, Fleet, proxy_environment, server_at, time_limit, wait_until
from espalier_server import BINARY, MODEL, EspalierTest, environment, free_port, random_inputs, read_answer

DOCUMENTS = ["salt is a mineral", "pepper is a spice"]
EMBEDDINGS = "/v1/embeddings"
RERANK = "/v1/rerank"


class FleetTest(EspalierTest):
    """One fleet for all tests of the class: self.fleet, self.proxy."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(cls)
        cls.proxy = cls.fleet.proxy

    _requests = 0

    def ask(self, path, body, headers=None, status=200):
        """Sends it; the proxy's log line of it."""
        FleetTest._requests += 1
        request_id = f"{self.id().rsplit('.', 1)[1]}-{FleetTest._requests}"
        self.reply = self.proxy.post(path, body, {"X-Request-Id": request_id, **(headers or {})})
        self.assertEqual(self.reply.status, status, self.reply)
        self.assertEqual(self.reply.headers["x-request-id"], request_id)
        fields = self.proxy.logged(request_id)
        self.assertEqual((fields["path"], fields["status"]), (path.split("?")[0], str(status)))
        return fields

    def key(self, path, body, source, headers=None):
        """The key that its log line has, which is from `source`."""
        fields = self.ask(path, body, headers)
        self.assertEqual(fields["key_source"], source)
        self.assertEqual(fields["backend"], "by_prefix")
        return fields["key"]

    def assert_unkeyed(self, path, body, headers=None, status=200):
        fields = self.ask(path, body, headers, status)
        self.assertEqual((fields["key_source"], fields["key"], fields["backend"]), ("-", "-", "by_load"))
        return fields


class KeyTest(FleetTest):
    def test_a_rerank_goes_by_model_instruction_and_query(self):
        key = self.key(RERANK, {"query": "salt", "documents": DOCUMENTS}, "query")
        for path, body in ((RERANK, {"documents": DOCUMENTS[:1], "top_n": 1, "query": "salt"}),
                           ("/v2/rerank", {"query": "salt", "documents": DOCUMENTS}),
                           ("/reranking", {"query": "salt", "documents": DOCUMENTS}),
                           ("/rerank", {"query": "salt", "texts": DOCUMENTS}),
                           ("/v1/score", {"text_1": "salt", "text_2": DOCUMENTS}),
                           ("/score?x=y", {"text_1": "salt", "text_2": DOCUMENTS}),
                           (RERANK, b' {\n  "documents": ["a"] ,\n\t"query" :  "salt" }')):
            with self.subTest(path):
                self.assertEqual(self.key(path, body, "query"), key)
        others = [self.key(RERANK, {"query": "salt", "documents": DOCUMENTS, **fields}, "query")
                  for fields in ({"query": "Salt"}, {"query": "salt "}, {"model": "espalier-mini"},
                                 {"instruction": "espalier-mini"}, {"instruction": "find"})]
        self.assertEqual(len({key, *others}), 6)

    def test_embeddings_go_by_instruction_or_the_prompts_name(self):
        instruction = self.key(EMBEDDINGS, {"input": DOCUMENTS, "instruction": "query"}, "instruction")
        self.assertEqual(self.key("/v2/embed", {"texts": DOCUMENTS, "instruction": "query", "embedding_types": ["float"],
                                                "input_type": "search_query", "model": ""}, "instruction"), instruction)
        name = self.key(EMBEDDINGS, {"input": DOCUMENTS, "prompt_name": "query"}, "prompt_name")
        self.assertEqual(self.key("/embed", {"inputs": DOCUMENTS, "prompt_name": "query"}, "prompt_name"), name)
        self.assertEqual(self.key("/embed", {"inputs": DOCUMENTS, "parameters": {"prompt_name": "query"}}, "prompt_name"), name)
        self.assertNotEqual(self.key(EMBEDDINGS, {"input": DOCUMENTS, "instruction": "other"}, "instruction"), instruction)

    def test_the_header_comes_first(self):
        header = {"X-Espalier-Affinity": "session 7"}
        key = self.key(RERANK, {"query": "salt", "documents": DOCUMENTS}, "header", header)
        self.assertEqual(self.key(EMBEDDINGS, {"input": DOCUMENTS, "instruction": "find"}, "header", header), key)
        self.assertEqual(self.key(EMBEDDINGS, {"input": DOCUMENTS}, "header", header), key)
        self.assertEqual(self.key(EMBEDDINGS, gzip.compress(json.dumps({"input": DOCUMENTS}).encode()), "header",
                                  {**header, "Content-Encoding": "gzip"}), key)
        self.assertNotEqual(self.key(EMBEDDINGS, {"input": DOCUMENTS}, "header", {"X-Espalier-Affinity": "session 8"}), key)

    def test_a_key_has_one_replica_and_keys_are_spread(self):
        replicas = {}
        for _ in range(2):
            for number in range(60):
                fields = self.ask(RERANK, {"query": f"query {number}", "documents": ["salt"]})
                self.assertEqual(replicas.setdefault(number, fields["replica"]), fields["replica"])
        for replica in self.fleet.replicas:  # 20 of 60 on average
            self.assertGreater(sum(name == replica.name for name in replicas.values()), 8, replicas)

    def test_what_has_no_key_is_spread(self):
        counts = {}
        for number in range(30):
            body = {"input": f"text {number}"}
            fields = self.assert_unkeyed(EMBEDDINGS, body)
            counts[fields["replica"]] = counts.get(fields["replica"], 0) + 1
        self.assertEqual(sorted(counts.values()), [10, 10, 10])
        for body in ({"input": ["salt"], "instruction": None}, {"input": ["salt"], "input_type": "query"}):
            self.assert_unkeyed(EMBEDDINGS, body)

    def test_queries_with_escapes_and_of_all_scripts_have_keys(self):
        queries = ['say "salt"', "C:\\users\\new", "line\nbreak\ttab", "sel é", "盐是什么", "соль", "🧂", "\u2028", "/", "</script>",
                   "x" * 3_000, "盐" * 300]
        keys = []
        for query in queries:
            with self.subTest(query[:20]):
                for ascii_only in (True, False):
                    body = json.dumps({"documents": ["a \"quoted\" C:\\users 盐"], "query": query}, ensure_ascii=ascii_only).encode()
                    key = self.key(RERANK, body, "query")
                    self.assertEqual(self.key(RERANK, body, "query"), key)
                    keys.append(key)
        # Those with escapes for letters have another key than those without, which are from other clients.
        self.assertGreaterEqual(len(set(keys)), len(queries))

    def test_a_query_within_a_document_is_no_key(self):
        key = self.key(RERANK, {"query": "salt", "documents": DOCUMENTS}, "query")
        self.assertEqual(self.key(RERANK, {"documents": [{"text": "a", "query": "b"}, '{"query": "c"}'], "query": "salt"}, "query"), key)

    def test_texts_are_in_no_log_line(self):
        self.ask(RERANK, {"query": "unspeakable", "documents": ["unheard"]}, {"X-Espalier-Affinity": "untold"})
        self.assertNotRegex("".join(self.proxy.log), "unspeakable|unheard|untold")


class BodyTest(FleetTest):
    def test_broken_bodies_get_the_servers_own_answers(self):
        for body, status in ((b'{"query": "salt", "documents": [', 400), (b"{", 400), (b"", 400), (b'"query"', 400), (b"\0" * 100, 400),
                             (b'{"query": 1, "documents": ["a"]}', 400), (b"[" * 10_000, 400), (b"\xff\xfe" * 50, 400)):
            with self.subTest(body[:20]):
                self.ask(RERANK, body, status=status)
                self.assertIn("error", self.reply.json())
                self.assertNotEqual(self.reply.error()["code"], "malformed_http")

    def test_bodies_that_fit_no_buffer_go_through_in_pieces(self):
        text = "salt and pepper " * 62_500  # a million bytes
        key = self.key(RERANK, {"query": "salt", "documents": DOCUMENTS}, "query")
        # What comes in the first MiB is read for the key.
        self.assertEqual(self.key(RERANK, {"query": "salt", "documents": [text] * 30}, "query"), key)
        self.assert_unkeyed(RERANK, {"documents": [text] * 30, "query": "salt"})
        # The same in chunks.
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=time_limit(120))
        body = json.dumps({"query": "salt", "documents": [text] * 5}).encode()
        connection.request("POST", RERANK, iter([body[i:i + 70_000] for i in range(0, len(body), 70_000)]),
                           {"Content-Type": "application/json"}, encode_chunked=True)
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def test_a_body_that_is_too_large_gets_the_servers_413(self):
        self.ask(RERANK, {"query": "salt", "documents": ["x" * 1_000_000] * 50}, status=413)
        self.assert_error(self.reply, 413, message="33554432")

    def test_compressed_bodies_go_to_the_replica_with_least_to_do(self):
        body = gzip.compress(json.dumps({"query": "salt", "documents": DOCUMENTS}).encode())
        self.assert_unkeyed(RERANK, body, {"Content-Encoding": "gzip"})


class HeadTest(FleetTest):
    def test_request_ids_are_made_or_kept_if_sound(self):
        made = self.proxy.post(EMBEDDINGS, {"input": "salt"}).headers["x-request-id"]
        self.assertRegex(made, "^[0-9a-f-]{36}$")
        self.assertEqual(self.proxy.logged(made)["status"], "200")
        for unsound in ("has space", 'quo"te', "back\\slash", "x" * 129):
            reply = self.proxy.post(EMBEDDINGS, {"input": "salt"}, {"X-Request-Id": unsound})
            self.assertRegex(reply.headers["x-request-id"], "^[0-9a-f-]{36}$", unsound)
        for sound in ("a", "x" * 128, "[]{}!#~/"):
            reply = self.proxy.post(EMBEDDINGS, {"input": "salt"}, {"X-Request-Id": sound})
            self.assertEqual(reply.headers["x-request-id"], sound)
        ids = {line for replica in self.fleet.replicas for line in replica.server.log if f"request_id={made}" in line}
        self.assertEqual(len(ids), 1)

    def test_heads_are_bounded(self):
        reply = self.proxy.post(EMBEDDINGS, {"input": "salt"}, {"X-Long": "x" * 33_000})
        self.assert_error(reply, 431, code="header_too_large")
        self.assertEqual(self.proxy.post(EMBEDDINGS, {"input": "salt"}, {"X-Long": "x" * 30_000}).status, 200)
        reply = self.proxy.post(EMBEDDINGS, {"input": "salt"}, {f"X-{number}": "x" for number in range(140)})
        self.assertEqual(reply.status, 431)
        # What is no HTTP is refused before there is a request, and in HAProxy's own words.
        for garbage in (b"GARBAGE\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"):
            self.assertEqual(self.proxy.exchange(garbage).status, 400)

    def test_what_belongs_to_one_replica_is_not_for_clients(self):
        for path in ("/metrics", "/debug/timeline"):
            self.assert_error(self.proxy.get(path), 404)
        self.assertEqual(self.proxy.get("/v1/models").json()["data"][0]["id"], "espalier-mini")
        self.assertEqual(self.proxy.get("/openapi.json").status, 200)

    def test_operators_have_metrics_statistics_and_probes(self):
        statistics = self.proxy.statistics()
        self.assertEqual(statistics["by_prefix", "replica1"]["status"], "UP")
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.stats_port, timeout=time_limit(60))
        for path, expected in (("/metrics", b"haproxy_server_http_responses_total"), ("/livez", b"ok"), ("/readyz", b"ok"),
                               ("/stats", b"by_prefix")):
            connection.request("GET", path)
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            self.assertIn(expected, answer.read())
        connection.close()

    def test_a_body_that_does_not_come_holds_no_replica(self):
        with self.proxy.connect() as slow:
            slow.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
            time.sleep(0.3)
            used = sum(int(self.proxy.statistics()[backend, "BACKEND"]["scur"]) for backend in ("by_prefix", "by_load"))
            self.assertEqual(used, 0)

    def test_a_body_that_never_comes_is_answered(self):
        proxy = self.fleet.add_proxy(self.addCleanup, substitutions=[("wait-for-body time 60s", "wait-for-body time 1s")])
        with proxy.connect() as slow:
            slow.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
            self.assert_error(read_answer(slow), 408, code="request_too_slow")

    def test_replicas_that_trust_the_proxy_know_clients_and_not_what_they_claim(self):
        fleet = Fleet(self, 1, options=("--trusted-proxy", "127.0.0.1"))
        connection = http.client.HTTPConnection("127.0.0.1", fleet.proxy.port, timeout=time_limit(60), source_address=("127.0.0.5", 0))
        connection.request("POST", EMBEDDINGS, b'{"input": "salt"}', {"Content-Type": "application/json", "X-Forwarded-For": "192.0.2.1"})
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        wait_until(lambda: any("client=127.0.0.5" in line for line in fleet.replicas[0].server.log), "the client's address in the log")
        self.assertNotIn("192.0.2.1", fleet.replicas[0].server.log_text())

    def test_keys_of_the_api_pass(self):
        fleet = Fleet(self, 1, options=("--api-key", "sesame"))
        self.assertEqual(fleet.proxy.post(EMBEDDINGS, {"input": "salt"}).status, 401)
        self.assertEqual(fleet.proxy.post(EMBEDDINGS, {"input": "salt"}, {"Authorization": "Bearer sesame"}).status, 200)


class LoadTest(EspalierTest):
    def test_a_replica_that_loads_is_not_used(self):
        fleet = Fleet(self, 2)
        ready, loading = fleet.replicas
        loading.kill()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        model = os.path.join(folder.name, "espalier-mini")
        shutil.copytree(MODEL, model)
        os.remove(os.path.join(model, "tokenizer.json"))
        os.mkfifo(os.path.join(model, "tokenizer.json"))  # nobody writes it: loading stops there
        process = subprocess.Popen([BINARY, "serve", "--model", model, "--port", str(loading.port), "--admin-port",
                                    str(loading.admin_port)], env=environment(), stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def says_so():
            try:
                return server_at(loading.admin_port).get("/readyz").status == 503
            except OSError:
                return False
        wait_until(says_so, "a server that loads")
        # A proxy that believes it to be up, as for a moment after a restart: the 503 is not the client's.
        believing = fleet.add_proxy(self.addCleanup, substitutions=[("http-check expect status 200", "http-check expect status 200-599")])
        for number in range(12):
            reply = believing.post(RERANK, {"query": f"{number}", "documents": DOCUMENTS})
            self.assertEqual(reply.status, 200, reply)
        wait_until(lambda: len(believing.requests_logged()) == 12, "log lines")
        self.assertEqual({(fields["replica"], fields["status"]) for fields in believing.requests_logged()}, {(ready.name, "200")})
        self.assertIn("+1", {fields["retries"] for fields in believing.requests_logged()})
        # The one that asks /readyz does not even try.
        self.assertEqual(fleet.proxy.replicas_up(), {ready.name})
        for number in range(12):
            reply = fleet.proxy.post(RERANK, {"query": f"{number}", "documents": DOCUMENTS})
            self.assertEqual(fleet.proxy.logged(reply.headers["x-request-id"])["retries"], "0")

    def test_a_503_is_repeated_elsewhere_and_nothing_else_is(self):
        fleet = Fleet(self, 2, options=("--threads", "1", "--max-batch-tokens", "2048", "--max-queue", "64",
                                        "--request-timeout", "2"))
        blocked = [fleet.proxy.in_background(EMBEDDINGS, {"input": random_inputs(60, 2000, seed)}) for seed in (1, 2)]
        wait_until(lambda: sum(replica.metric("espalier_queue_tickets") for replica in fleet.replicas) >= 90, "full queues")
        refused = fleet.proxy.post(EMBEDDINGS, {"input": ["salt"] * 40})
        self.assert_error(refused, 429)
        self.assertIn("retry-after", refused.headers)
        for request in blocked:
            self.assert_error(request.result(), 504)
        wait_until(lambda: len(fleet.proxy.requests_logged()) >= 3, "log lines")
        self.assertEqual({(fields["status"], fields["retries"]) for fields in fleet.proxy.requests_logged()},
                         {("429", "0"), ("504", "0")})

    def test_what_a_drain_gives_up_is_done_elsewhere(self):
        fleet = Fleet(self, 2, options=("--threads", "1", "--max-batch-tokens", "2048", "--drain-timeout", "0"))
        header = {"X-Espalier-Affinity": "here"}
        fleet.proxy.post(EMBEDDINGS, {"input": "salt"}, header)
        wait_until(fleet.proxy.requests_logged, "a log line")
        home = next(replica for replica in fleet.replicas if replica.name == fleet.proxy.requests_logged()[0]["replica"])
        waiting = fleet.proxy.in_background(EMBEDDINGS, {"input": random_inputs(50, 2000, 3)}, header)
        wait_until(lambda: home.metric("espalier_queue_tickets") > 0, "a request under way")
        home.stop()
        self.assertIn("were answered 503", home.server.log_text())
        self.assertEqual(waiting.result().status, 200)

    def test_without_any_replica_the_answer_is_the_apis_503(self):
        fleet = Fleet(self, 2)
        for replica in fleet.replicas:
            replica.kill()
        for _ in range(2):  # before the proxy has found out, and after
            reply = fleet.proxy.post(RERANK, {"query": "salt", "documents": DOCUMENTS})
            self.assert_error(reply, 503, code="no_replica_ready")
            self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
            self.assertIn("x-request-id", reply.headers)
            wait_until(lambda: not fleet.proxy.replicas_up(), "all down", 20)
        fleet.replicas[0].start()
        wait_until(lambda: fleet.proxy.post(RERANK, {"query": "salt", "documents": DOCUMENTS}).status == 200, "service again", 20)

    def test_few_keys_move_when_a_replica_goes(self):
        fleet = Fleet(self, 3)

        def homes():
            replicas = []
            for number in range(60):
                reply = fleet.proxy.post(EMBEDDINGS, {"input": "salt"}, {"X-Espalier-Affinity": f"key {number}"})
                # One at a time: of two at once the second would overflow.
                replicas.append(fleet.proxy.logged(reply.headers["x-request-id"])["replica"])
            return replicas

        before = homes()
        gone = fleet.replicas[1]
        gone.stop()
        wait_until(lambda: gone.name not in fleet.proxy.replicas_up(), "one down", 20)
        without = homes()
        self.assertEqual([home for home in before if home != gone.name],
                         [now for home, now in zip(before, without) if home != gone.name])
        gone.start()
        wait_until(lambda: len(fleet.proxy.replicas_up()) == 3, "three up", 20)
        self.assertEqual(homes(), before)


class ConfigurationTest(EspalierTest):
    def check(self, **settings):
        done = subprocess.run([HAPROXY, "-c", "-f", CONFIG], env=proxy_environment(settings), capture_output=True, text=True,
                              timeout=time_limit(60), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stdout + done.stderr, "WARNING|ALERT|Warnings were found", settings)

    def test_every_variant_is_valid_without_a_warning(self):
        self.check()
        self.check(ESPALIER_REPLICA_1="10.0.0.1:8080", ESPALIER_CHECK_PORT="9090", ESPALIER_PROXY_USER="haproxy")
        self.check(**{f"ESPALIER_REPLICA_{number}": f"10.0.0.{number}:8080" for number in range(1, 9)})
        self.check(ESPALIER_REPLICA_1="espalier-1:8080", ESPALIER_REPLICA_2="espalier-2:8080", ESPALIER_NAMESERVER="127.0.0.11:53")
        self.check(ESPALIER_REPLICAS_DNS="espalier.default.svc.cluster.local:8080", ESPALIER_CHECK_PORT="9090")
        self.check(ESPALIER_REPLICAS_DNS="espalier:8080", ESPALIER_NAMESERVER="127.0.0.11:53", ESPALIER_REPLICAS_MAX="64")

    def test_the_manual_names_every_variable(self):
        with open(CONFIG, encoding="utf-8") as file:
            variables = set(re.findall(r"ESPALIER_[A-Z_]+[A-Z]", file.read()))
        with open(os.path.join(SOURCE, "docs", "deploy", "fleet.md"), encoding="utf-8") as file:
            self.assertEqual(variables - set(re.findall(r"ESPALIER_[A-Z_]+[A-Z]", file.read())), set())


if __name__ == "__main__":
    unittest.main()
