"""The serving benchmarks run, find the same answers with and without dedup, and count rows as they say."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from espalier_server import BINARY, MODEL, distinct_prefixes, environment, time_limit

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")


def run_bench(script, *arguments):
    """What the benchmark wrote to its JSON file."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [sys.executable, "-B", os.path.join(BENCH, script), "--binary", BINARY, "--json", report,
                   *map(str, arguments)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=time_limit(100),
                              check=False)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        with open(report, encoding="utf-8") as file:
            return json.load(file)


class ServingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        report = run_bench("serving.py", "--quick", "--dtype", "f32")
        cls.workloads = {workload["workload"]: workload for workload in report["workloads"]}

    def test_every_workload_gives_the_same_bits_with_and_without_dedup(self):
        self.assertEqual(set(self.workloads), {"msmarco", "rerank", "synthetic"})
        for name, workload in self.workloads.items():
            self.assertTrue(workload["answers"]["same_bits"], name)

    def test_both_modes_got_the_same_tokens_and_only_trie_shared_them(self):
        for name, workload in self.workloads.items():
            trie, off = workload["modes"]["trie"], workload["modes"]["off"]
            self.assertEqual(trie["tokens"], off["tokens"], name)
            self.assertEqual(off["rows"], off["tokens"], name)
            self.assertLess(trie["rows"], off["rows"], name)
            self.assertEqual(workload["predicted_by_rows"], off["rows"] / trie["rows"], name)

    def test_synthetic_inputs_share_within_a_request_alone(self):
        synthetic = self.workloads["synthetic"]
        about = synthetic["about"]
        own, shared = about["inputs"] * about["own_tokens"], about["shared_tokens"]
        tokens = synthetic["requests"] * (own + about["inputs"] * shared)
        self.assertEqual(synthetic["modes"]["off"]["rows"], tokens)
        rows = synthetic["requests"] * (own + shared)
        self.assertAlmostEqual(synthetic["modes"]["trie"]["rows"], rows, delta=0.05 * rows)


class IdleConnectionsTest(unittest.TestCase):
    def test_both_kinds_of_rounds_are_timed_and_their_answers_compared(self):
        report = run_bench("idle_connections.py", "--idle", 60, "--slow", 6, "--rounds", 2, "--requests", 30, "--rest", 1,
                           "--no-targets")
        for kind in ("alone", "crowded"):
            self.assertEqual(report["kinds"][kind]["requests"], 60)
            self.assertLessEqual(report["kinds"][kind]["median_seconds"], report["kinds"][kind]["p99_seconds"])
        self.assertLess(report["cpu_share_at_rest"], 0.5)


class WorkloadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, BENCH)
        import msmarco_workload  # of the folder just added
        cls.workload = msmarco_workload

    def test_the_same_seed_gives_the_same_requests(self):
        self.assertEqual(self.workload.requests(3, 64, seed=5), self.workload.requests(4, 64, seed=5)[:3])
        self.assertNotEqual(self.workload.requests(1, 64, seed=5), self.workload.requests(1, 64, seed=6))

    def test_a_request_holds_whole_queries_of_5_to_11_passages(self):
        for queries in self.workload.requests(10, 64):
            self.assertEqual(sum(len(query.passages) for query in queries), 64)
            self.assertTrue(all(5 <= len(query.passages) <= 11 for query in queries))


class InterleavedRerankTest(unittest.TestCase):
    def test_rows_are_counted_for_the_prompts_alone(self):
        report = run_bench("interleaved_rerank.py", "--model", MODEL, "--dtype", "f32", "--reranks", 4, "--documents",
                           12, "--query-tokens", "30", "--max-batch-tokens", 1024, "--block-seconds", 0.5)
        measurement, = report["measurements"]
        server, arrival = (measurement["orders"][name] for name in ("server", "arrival order"))
        self.assertGreater(server["batches"], 2)
        self.assertGreaterEqual(server["rows"], measurement["distinct_prefixes"])
        self.assertLessEqual(server["rows"], 1.05 * arrival["rows"])

    def test_distinct_prefixes_are_those_of_the_tests(self):
        sys.path.insert(0, BENCH)
        import interleaved_rerank
        sequences = [[1, 2, 3], [1, 2, 4, 5], [1, 2], [2, 3], [1, 2, 4, 5]]
        self.assertEqual(interleaved_rerank.distinct_prefixes(sequences), distinct_prefixes(sequences))
        self.assertEqual(interleaved_rerank.shared_by_all(sequences[:3]), 2)
        self.assertEqual(interleaved_rerank.shared_by_all(sequences), 0)
        self.assertEqual(interleaved_rerank.in_order(sequences, rows_max=5), (11, 3))


if __name__ == "__main__":
    unittest.main()
