"""GET /metrics: present with zero before traffic, exact after it. One request that fits into one batch is one batch,
so what is computed is known: every distinct prefix of its inputs once (trie, radixmlp), or every token (off)."""

import json
import tempfile
import unittest

import numpy as np

from espalier_server import ServerTest, distinct_prefixes, random_inputs, tokenize, wait_until

COUNTERS = ("espalier_tokens_total", "espalier_compact_tokens_total", "espalier_batches_total",
            "espalier_sequences_total", "espalier_batch_failures_total",
            "espalier_batches_abandoned_total", "espalier_interludes_total", "espalier_abandoned_requests_total",
            "espalier_queue_tickets", "espalier_queue_tokens", "espalier_rows_saved_total",
            "espalier_plan_refinements_total", "espalier_worker_idle_seconds_total")
REASONS = {"espalier_batch_closed_total": ("queue_empty", "rows", "sequences", "seconds"),
           "espalier_rejected_total": ("too_large", "queue_full", "deadline", "loading", "shutting_down", "unauthorized")}
PROMPT = "You are a careful librarian. Answer with the title of a book about "
ONE_BATCH = ("--max-batch-ms", "60000")  # however slow the machine is
TEXTS = [PROMPT + topic for topic in ("salt", "salt water", "ships", "ships and salt", "timber")] + ["salt", "a", "b"]


class BeforeTrafficTest(ServerTest):
    def test_every_metric_is_there_with_zero(self):
        reply = self.server.get("/metrics")
        self.assertEqual(reply.status, 200)
        self.assertTrue(reply.headers["content-type"].startswith("text/plain; version=0.0.4"))
        metrics = self.server.metrics()
        for name in COUNTERS:
            self.assertEqual(metrics[name], 0, name)
        routes = ("/v1/embeddings", "/v1/rerank", "/v1/models", "/health", "/rerank", "/v1/models/*", "/v2/embed",
                  "/embed", "/tokenize", "/info")
        for route in routes:
            self.assertEqual(metrics[f'espalier_requests_total{{route="{route}",status="200"}}'], 0, route)
            self.assertEqual(metrics[f'espalier_request_duration_seconds_count{{route="{route}"}}'], 0, route)
        for stage in ("tokenize", "queue", "inference", "plan", "compute"):
            self.assertEqual(metrics[f"espalier_{stage}_duration_seconds_count"], 0, stage)
        for name, reasons in REASONS.items():
            for reason in reasons:
                self.assertEqual(metrics[f'{name}{{reason="{reason}"}}'], 0, name)
        self.assertEqual(metrics["espalier_compression_ratio"], 1)
        self.assertEqual(metrics["espalier_wait_seconds_count"], 0)
        self.assertEqual(metrics["espalier_worker_idle_duration_seconds_count"], 0)
        text = reply.body.decode()
        for name in COUNTERS:
            self.assertIn(f"# HELP {name} ", text)
            self.assertIn(f"# TYPE {name} ", text)


class CountingTest:
    """The tests, run by one class for each mode."""

    deduplicates = True

    def grown(self, action):
        """How much each metric grows by `action`: whoever has an answer sees it counted."""
        before = self.server.metrics()
        action()
        return {name: value - before.get(name, 0) for name, value in self.server.metrics().items()}

    def assert_one_batch(self, action, sequences):
        tokens = sum(map(len, sequences))
        grown = self.grown(action)
        self.assertEqual(grown["espalier_batches_total"], 1)
        self.assertEqual(grown["espalier_sequences_total"], len(sequences))
        self.assertEqual(grown["espalier_tokens_total"], tokens)
        expected = distinct_prefixes(sequences) if self.deduplicates else tokens
        self.assertEqual(grown["espalier_compact_tokens_total"], expected)
        self.assertEqual(grown["espalier_rows_saved_total"], tokens - expected)
        self.assertEqual(sum(grown[f'espalier_batch_closed_total{{reason="{reason}"}}']
                             for reason in REASONS["espalier_batch_closed_total"]), 1)
        self.assertEqual(grown["espalier_batch_failures_total"], 0)

    def test_texts_with_a_shared_prompt(self):
        sequences = tokenize(TEXTS)
        self.assertLess(distinct_prefixes(sequences), 0.6 * sum(map(len, sequences)))
        self.assert_one_batch(lambda: self.server.embed(TEXTS), sequences)

    def test_equal_texts(self):
        texts = ["the same text again and again"] * 32
        self.assert_one_batch(lambda: self.server.embed(texts), tokenize(texts))

    def test_random_trees_of_token_ids(self):
        rng = np.random.default_rng(21)
        for _ in range(10):
            inputs = [[*rng.integers(0, 3, rng.integers(1, 12)).tolist(), 8187] for _ in range(40)]
            self.assert_one_batch(lambda inputs=inputs: self.server.embed(inputs), inputs)

    def test_inputs_that_end_inside_each_other(self):
        inputs = [[8187], [8187, 8187], [5, 8187], [5, 8187, 8187], [5, 8187, 6, 8187]]
        self.assert_one_batch(lambda: self.server.embed(inputs), inputs)

    def test_nothing_shared(self):
        inputs = [[first, *rest] for first, rest in enumerate(random_inputs(20, 30, seed=22))]
        self.assertEqual(distinct_prefixes(inputs), sum(map(len, inputs)))
        self.assert_one_batch(lambda: self.server.embed(inputs), inputs)

    def test_rerank_computes_equal_prompts_once(self):
        def tokens_of(documents):
            reply = self.server.post("/v1/rerank", {"query": "a tree trained to grow flat", "documents": documents})
            return reply.json()["usage"]["total_tokens"]

        one = tokens_of(["salt"])
        grown = self.grown(lambda: self.assertEqual(tokens_of(["salt"] * 10), 10 * one))
        self.assertEqual(grown["espalier_tokens_total"], 10 * one)
        self.assertEqual(grown["espalier_compact_tokens_total"], one if self.deduplicates else 10 * one)

    def test_rerank_shares_everything_up_to_the_documents(self):
        def rerank(*documents):
            self.server.rerank("a tree trained to grow flat", documents)

        alone = self.grown(lambda: rerank("salt"))["espalier_compact_tokens_total"]
        together = self.grown(lambda: rerank("salt", "water", "a ship"))["espalier_compact_tokens_total"]
        if self.deduplicates:
            self.assertLess(together, 1.6 * alone)  # each further document costs itself and the template's tail
        else:
            self.assertGreaterEqual(together, 3 * alone)

    def test_requests_are_counted_by_route_and_status(self):
        def traffic():
            for _ in range(3):
                self.server.embed("salt")
            self.server.rerank("salt", ["salt"])
            self.server.get("/health")
            self.server.get("/nowhere/at/all")
            self.server.post("/v1/rerank", {"query": 5})

        def counted(route, status):
            return self.server.metrics().get(f'espalier_requests_total{{route="{route}",status="{status}"}}', 0)

        cases = {("/v1/embeddings", 200): 3, ("/v1/rerank", 200): 1, ("/health", 200): 1, ("other", 404): 1,
                 ("/v1/rerank", 400): 1}
        before = {case: counted(*case) for case in cases}
        traffic()
        for case, count in cases.items():
            wait_until(lambda case=case, count=count: counted(*case) == before[case] + count, f"{count} of {case}")
        self.assertNotIn("nowhere", self.server.get("/metrics").body.decode())

    def test_stages_are_timed_once_a_request_or_batch(self):
        grown = self.grown(lambda: self.server.embed(TEXTS))
        for stage in ("tokenize", "queue", "inference", "plan", "compute"):
            self.assertEqual(grown[f"espalier_{stage}_duration_seconds_count"], 1, stage)
            self.assertGreaterEqual(grown[f"espalier_{stage}_duration_seconds_sum"], 0, stage)
        self.assertGreater(grown["espalier_compute_duration_seconds_sum"], 0)

    def test_requests_show_their_inputs_and_bytes(self):
        def counted():
            return self.server.metric('espalier_request_bytes_total{route="/v1/embeddings"}')

        before, inputs = counted(), self.server.metric("espalier_request_inputs_sum")
        self.server.embed(TEXTS)
        size = len(json.dumps({"input": TEXTS}))
        wait_until(lambda: counted() == before + size, "the request's bytes counted")
        self.assertEqual(self.server.metric("espalier_request_inputs_sum"), inputs + len(TEXTS))

    def test_waits_are_shown_by_percentile(self):
        self.assertEqual(self.grown(lambda: self.server.embed(TEXTS))["espalier_wait_seconds_count"], 1)
        metrics = self.server.metrics()
        for quantile in ("0.5", "0.9", "0.99"):
            self.assertGreaterEqual(metrics[f'espalier_wait_seconds{{quantile="{quantile}"}}'], 0)

    def test_what_could_never_fit_and_what_is_too_large_is_counted(self):
        server = self.start(*self.options, "--max-queue", "2", "--max-body-mb", "1")
        too_large = 'espalier_rejected_total{reason="too_large"}'
        self.assert_error(server.post("/v1/embeddings", {"input": ["a", "b", "c"]}), 400, param="input",
                          code="request_too_large")
        self.assertEqual(server.metric(too_large), 1)
        self.assertEqual(server.post("/v1/embeddings", {"input": "a" * (2 << 20)}).status, 413)
        wait_until(lambda: server.metric(too_large) == 2, "a body too large counted")


class KeyUsageTest(ServerTest):
    def test_each_key_is_charged_for_its_own(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("shop secret-1\nbatch secret-2\n")
            keys.flush()
            server = self.start("--api-key-file", keys.name, *ONE_BATCH)

            def used(key):
                metrics = server.metrics()
                return [metrics[f'espalier_key_{what}_total{{key="{key}"}}'] for what in ("requests", "tokens", "rows")]

            self.assertEqual([used("shop"), used("batch")], [[0, 0, 0], [0, 0, 0]])
            reply = server.post("/v1/embeddings", {"input": TEXTS}, {"Authorization": "Bearer secret-1"})
            self.assertEqual(reply.status, 200)
            server.post("/v1/embeddings", {"input": TEXTS}, {"Authorization": "Bearer wrong"})
            sequences = tokenize(TEXTS)
            self.assertEqual(used("shop"), [1, sum(map(len, sequences)), distinct_prefixes(sequences)])
            self.assertEqual(used("batch"), [0, 0, 0])


class LimitsTest(ServerTest):
    options = ("--max-batch-inputs", "2", "--max-queue-tokens", "100")

    def test_batches_close_by_their_inputs(self):
        closed = 'espalier_batch_closed_total{reason="sequences"}'
        self.server.embed([[5, 8187], [6, 8187], [7, 8187], [8, 8187], [9, 8187]])
        self.assertGreaterEqual(self.server.metric(closed), 2)
        self.assertGreaterEqual(self.server.metric("espalier_batches_total"), 3)

    def test_more_tokens_than_may_wait_are_refused(self):
        reply = self.server.post("/v1/embeddings", {"input": random_inputs(3, 40, seed=23)})
        self.assert_error(reply, 400, param="input", code="request_too_large", message="more tokens.*100")
        self.assertGreaterEqual(self.server.metric('espalier_rejected_total{reason="too_large"}'), 1)


class TrieTest(CountingTest, ServerTest):
    options = ("--dedup", "trie", *ONE_BATCH)


class RadixMlpTest(CountingTest, ServerTest):
    options = ("--dedup", "radixmlp", *ONE_BATCH)


class OffTest(CountingTest, ServerTest):
    options = ("--dedup", "off", *ONE_BATCH)
    deduplicates = False


if __name__ == "__main__":
    unittest.main()
