"""The commands beside serve: what they print, in which order, what they refuse, and where an option's value comes
from (flag, environment, file, default)."""

import json
import os
import re
import subprocess
import tempfile
import unittest

import numpy as np

from espalier_server import (BINARY, MODEL, EspalierTest, ServerTest, environment, golden, json_lines, run_espalier,
                             time_limit)

TEXTS = ["a tree trained to grow flat", "naïve café — Ünïcödé", "今日は 👩‍👩‍👧", " ", "a\nb\u0000c", "a tree trained"]


def lines(texts):
    return json_lines({"text": text} for text in texts)


def output(*arguments, stdin="", **settings):
    """The JSON lines of a command that must succeed."""
    done = run_espalier(*arguments, stdin=stdin, **settings)
    if done.returncode != 0:
        raise AssertionError(f"espalier {arguments}: exit code {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class CommandTest(EspalierTest):
    def assert_refused(self, done, code, message):
        self.assertEqual((done.returncode, done.stdout[:80]), (code, ""), done.stderr)
        self.assertRegex(done.stderr, message)


class EmbedTest(CommandTest, ServerTest):
    def embed(self, texts, *options):
        records = output("embed", "--model", MODEL, *options, stdin=lines(texts))
        for record in records:
            self.assertEqual(set(record), {"embedding"})
        return np.array([record["embedding"] for record in records], np.float32)

    def test_embeddings_come_in_order_and_equal_those_over_http(self):
        np.testing.assert_allclose(self.embed(TEXTS), self.server.embed(TEXTS), rtol=0, atol=1e-6)

    def test_options_do_what_they_do_over_http(self):
        for options, fields in ((("--prompt-name", "query"), {"prompt_name": "query"}),
                                (("--instruction", "Find salt"), {"instruction": "Find salt"}),
                                (("--dimensions", "64"), {"dimensions": 64})):
            expected = self.server.embed(TEXTS, **fields)
            np.testing.assert_allclose(self.embed(TEXTS, *options), expected, rtol=0, atol=1e-6)

    def test_more_lines_than_a_request_holds_keep_their_order(self):
        texts = [f"line {i % 500}" for i in range(1500)]
        embeddings = self.embed(texts)
        np.testing.assert_allclose(embeddings[:500], self.server.embed(texts[:500]), rtol=0, atol=1e-6)
        np.testing.assert_allclose(embeddings[500:], np.tile(embeddings[:500], (2, 1)), rtol=0, atol=1e-5)

    def test_all_modes_agree(self):
        for mode in ("trie", "radixmlp", "off"):
            np.testing.assert_allclose(self.embed(TEXTS, "--dedup", mode), self.server.embed(TEXTS), rtol=0, atol=1e-5)

    def test_other_keys_and_blank_lines_are_ignored(self):
        stdin = '\n{"id": 7, "text": "salt"}\r\n   \n{"text": "water", "more": [1, {}]}'
        records = output("embed", "--model", MODEL, stdin=stdin)
        np.testing.assert_allclose([record["embedding"] for record in records], self.server.embed(["salt", "water"]),
                                   atol=1e-6)

    def test_a_bad_line_is_named_by_its_number(self):
        for bad in ("{", '"text"', '{"txt": "a"}', '{"text": 5}', '{"text": "\\ud800"}', "[" * 100_000):
            for command in (("embed",), ("tokenize",), ("rerank", "--query", "q")):
                done = run_espalier(*command, "--model", MODEL, stdin=f'{{"text": "a"}}\n\n{bad}\n{{"text": "b"}}\n')
                self.assertEqual(done.returncode, 1, command)
                self.assertRegex(done.stderr, r"line 3\b", command)

    def test_an_empty_text_is_refused(self):
        self.assert_refused(run_espalier("embed", "--model", MODEL, stdin=lines([""])), 1, "input")

    def test_an_unknown_prompt_is_answered_with_those_there_are(self):
        done = run_espalier("embed", "--model", MODEL, "--prompt-name", "passage", stdin=lines(["a"]))
        self.assert_refused(done, 1, '"document", "query"')


class LineByLineTest(CommandTest):
    """A program may write one line and wait for its answer."""

    def converse(self, *arguments):
        process = subprocess.Popen([BINARY, *arguments, "--model", MODEL], env=environment(), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        answers = []
        try:
            for text in TEXTS:
                process.stdin.write(lines([text]))
                process.stdin.flush()
                answers.append(json.loads(process.stdout.readline()))
            rest, _ = process.communicate(timeout=time_limit(30))
        finally:
            process.stdout.close()
        self.assertEqual((rest, process.returncode), ("", 0))
        return answers

    def test_embed_answers_each_line_before_the_next_is_written(self):
        together = output("embed", "--model", MODEL, stdin=lines(TEXTS))
        alone = self.converse("embed")
        np.testing.assert_allclose([record["embedding"] for record in alone],
                                   [record["embedding"] for record in together], atol=1e-5)

    def test_tokenize_answers_each_line_before_the_next_is_written(self):
        self.assertEqual(self.converse("tokenize"), output("tokenize", "--model", MODEL, stdin=lines(TEXTS)))


class TokenizeTest(CommandTest):
    def test_golden_ids(self):
        entries = golden()["embeddings"]
        stdin = lines(entry["input"] for entry in entries)
        with_end = output("tokenize", "--model", MODEL, "--add-special-tokens", stdin=stdin)
        self.assertEqual(with_end, [{"ids": entry["ids"]} for entry in entries])
        without = output("tokenize", "--model", MODEL, stdin=stdin)
        self.assertEqual(without, [{"ids": entry["ids"][:-1]} for entry in entries])


class RerankTest(CommandTest):
    QUERY = "What is the capital of China?"

    def test_scores_are_golden_and_best_first(self):
        entries = [entry for entry in golden()["rerank"] if entry["query"] == self.QUERY]
        documents = ["", *(entry["document"] for entry in reversed(entries)), "salt"]
        results = output("rerank", "--model", MODEL, "--query", self.QUERY, stdin=lines(documents))
        for result in results:
            self.assertEqual(set(result), {"index", "score"})
        self.assertEqual(sorted(result["index"] for result in results), list(range(len(documents))))
        scores = [result["score"] for result in results]
        self.assertEqual(scores, sorted(scores, reverse=True))
        by_index = {result["index"]: result["score"] for result in results}
        for entry in entries:
            self.assertAlmostEqual(by_index[documents.index(entry["document"])], entry["score"], delta=1e-4)

    def test_the_instruction_changes_the_scores(self):
        arguments = ("rerank", "--model", MODEL, "--query", self.QUERY)
        default = output(*arguments, stdin=lines(["salt"]))
        other = output(*arguments, "--instruction", "Find passages about salt", stdin=lines(["salt"]))
        self.assertGreater(abs(default[0]["score"] - other[0]["score"]), 1e-4)

    def test_the_query_is_required(self):
        self.assert_refused(run_espalier("rerank", "--model", MODEL, stdin=lines(["a"])), 2, "--query")


class OutputTest(CommandTest):
    COMMANDS = ("serve", "embed", "rerank", "tokenize", "inspect", "bench", "download", "models")

    def test_empty_stdin_gives_empty_stdout(self):
        for command in (("embed",), ("tokenize",), ("rerank", "--query", "q")):
            self.assertEqual(output(*command, "--model", MODEL), [])

    def test_inspect_shows_what_matters(self):
        done = run_espalier("inspect", "--model", MODEL)
        self.assertEqual(done.returncode, 0, done.stderr)
        for expected in (r"(?m)^architecture +qwen3 \(Qwen3ForCausalLM\)", r"(?m)^layers +4$",
                         r"(?m)^hidden size +256$",
                         r"(?m)^heads +4 query, 2 key-value, of 64", r"bfloat16", r"last_token, L2-normalised",
                         r"query +\"Instruct: Given a search query.*\\nQuery:\"", r"(?m)^kernels +\S",
                         r"(?m)^reranks +by the logit of \"yes\" \(2564\) less that of \"no\" \(2449\)$",
                         r"(?m)^memory +\S.* MB"):
            self.assertRegex(done.stdout, expected)

    def test_a_limit_of_memory_makes_batches_smaller(self):
        def rows(*options):
            done = run_espalier("inspect", "--model", MODEL, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            megabytes, rows = re.search(r"batches +(\S+) MB  activations of (\d+) rows", done.stdout).groups()
            return float(megabytes), int(rows)

        megabytes, all_rows = rows()
        small_megabytes, few_rows = rows("--max-workspace-mb", 20)
        self.assertGreater(megabytes, 20)
        self.assertLessEqual(small_megabytes, 20 * 1.048576 + 0.05)  # printed with one digit
        self.assertLess(few_rows, all_rows)
        done = run_espalier("inspect", "--model", MODEL, "--max-workspace-mb", "1")
        self.assert_refused(done, 1, "--max-workspace-mb 1 is too little")

    def test_version_names_version_commit_and_kernels(self):
        done = run_espalier("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^espalier \d+\.\d+\.\d+ \(commit \w+\)\nkernels: \S.*\n$")
        self.assertNotIn("Prescott", done.stdout)

    def test_help_explains_each_option_with_its_default_and_variable(self):
        overview = run_espalier("--help")
        self.assertEqual(overview.returncode, 0)
        for command in (*self.COMMANDS, "health"):
            self.assertRegex(overview.stdout, rf"(?m)^ +{command} ")
        serve = run_espalier("serve", "--help").stdout
        for option, default in (("port", "8080"), ("host", "127.0.0.1"), ("dedup", "trie"), ("dtype", "auto"),
                                ("max-batch-tokens", "4096"), ("max-input-tokens", "0"), ("threads", "0")):
            self.assertRegex(serve, rf"--{option} \S+=?.*{default}")
            self.assertIn(f"ESPALIER_{option.upper().replace('-', '_')}", serve)
        for command in self.COMMANDS:
            done = run_espalier(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("--model", done.stdout)

    def test_nothing_to_do_is_answered_with_the_help(self):
        done = run_espalier()
        self.assert_refused(done, 2, "serve")

    def test_unknown_commands_and_options_are_named(self):
        self.assert_refused(run_espalier("server"), 2, "server")
        self.assert_refused(run_espalier("serve", "--prot", "1"), 2, "--prot")
        self.assert_refused(run_espalier("serve", "--port", "x"), 2, "--port")
        self.assert_refused(run_espalier("serve", "--port", "65536"), 2, "--port")
        self.assert_refused(run_espalier("serve", "--dedup", "some"), 2, "--dedup")
        self.assert_refused(run_espalier("serve", "--dtype", "f64"), 2, "--dtype")
        self.assert_refused(run_espalier("embed", "--prompt-name", "query", "--instruction", "x"), 2, "--instruction")


class BenchTest(CommandTest):
    def bench(self, *options, env=None):
        done = run_espalier("bench", "--repeat", "2", *options, env=env, seconds_max=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_grid_gives_a_run_for_each_point_format_and_mode(self):
        result = self.bench("--batch", "3,5", "--prefix", "0,20", "--suffix", "7", "--dtype", "f32,bf16,int8",
                            "--dedup", "trie,radixmlp,off")
        self.assertEqual(len(result["runs"]), 2 * 2 * 3 * 3)
        for run in result["runs"]:
            shared = run["batch"] * (run["prefix"] + run["suffix"]) if run["dedup"] == "off" else (
                run["prefix"] + run["batch"] * run["suffix"])
            self.assertEqual(run["tokens"], run["batch"] * (run["prefix"] + run["suffix"]))
            self.assertEqual(run["compact_rows"], shared)
            seconds = run["seconds"]
            self.assertTrue(0 < seconds["min"] <= seconds["median"] <= seconds["max"])
            self.assertAlmostEqual(run["tokens_per_second"] * seconds["median"], run["tokens"], delta=1e-3)
            stages = run["stages"]
            self.assertGreater(stages["gemm"], 0)
            self.assertGreater(stages["attention"], 0)
            self.assertEqual(stages["gather_scatter"] > 0, run["dedup"] == "radixmlp")
            self.assertLessEqual(sum(stages.values()), seconds["max"] * 1.01)
        self.assertEqual({run["dtype"] for run in result["runs"]}, {"f32", "bf16", "int8"})

    def test_the_machine_and_its_limits_are_there(self):
        result = self.bench("--batch", "2", "--prefix", "3", "--suffix", "3", "--dtype", "f32", "--dedup", "trie",
                            "--threads", "1")
        self.assertEqual(result["machine"]["threads"], 1)
        self.assertRegex(result["machine"]["kernels"][0], r"^native f32 \(\w+ kernels\)$")
        self.assertGreater(result["limits"]["read_gbps"], 0)
        self.assertGreater(result["limits"]["gemm_gflops"]["f32"], 0)
        self.assertIn("amx_peak_gflops", result["limits"])

    def test_mistakes_in_lists_are_named(self):
        for option, value, expected in (("--batch", "1,x", "'x' is not a whole number"),
                                        ("--dtype", "f32,f64", "'f64' is not one of auto, f32, bf16, int8"),
                                        ("--dedup", "", "'' is not one of trie, radixmlp, off"),
                                        ("--batch", "0", "must be at least 1")):
            done = run_espalier("bench", option, value)
            self.assertEqual(done.returncode, 1)
            self.assertIn(expected, done.stderr)


class PrecedenceTest(CommandTest):
    """`espalier inspect` prints the dedup mode and, with the memory, the rows of a batch (or of one input, 2 048, if
    those are more)."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.file = os.path.join(self.folder, "espalier.toml")

    def write(self, text):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text)

    def inspect(self, *options, env=None):
        return run_espalier("inspect", "--model", MODEL, *options, env=env)

    def settings(self, *options, env=None):
        shown = self.inspect(*options, env=env).stdout
        return (re.search(r"(?m)^dedup +(\w+)$", shown).group(1),
                int(re.search(r"(?m)^  batches .*activations of (\d+) rows", shown).group(1)))

    def test_flags_win_over_environment_over_file_over_defaults(self):
        self.write('dedup = "off"\nmax-batch-tokens = 3000\nport = 9000\n')
        file = ("--config", self.file)
        env = {"ESPALIER_DEDUP": "radixmlp", "ESPALIER_MAX_BATCH_TOKENS": "3200"}
        self.assertEqual(self.settings(), ("trie", 4096))
        self.assertEqual(self.settings(*file), ("off", 3000))
        self.assertEqual(self.settings(env=env), ("radixmlp", 3200))
        self.assertEqual(self.settings(*file, env=env), ("radixmlp", 3200))
        self.assertEqual(self.settings(*file, "--max-batch-tokens", "3300", env=env), ("radixmlp", 3300))
        self.assertEqual(self.settings(*file, "--dedup", "trie"), ("trie", 3000))
        self.assertEqual(self.settings(env={"ESPALIER_CONFIG": self.file}), ("off", 3000))

    def test_serve_takes_its_port_from_the_environment(self):
        first = self.start()
        first.stop()
        server = self.start("--host", "127.0.0.1", "--port", str(first.port), env={"ESPALIER_PORT": "1"})
        self.assertEqual(server.port, first.port)
        done = run_espalier("serve", env={"ESPALIER_PORT": str(server.port), "ESPALIER_MODEL": MODEL})
        self.assert_refused(done, 1, str(server.port))
        server.stop()

    def test_serve_takes_its_limits_from_flags_environment_and_file(self):
        self.write("max-queue-tokens = 5000\nmax-batch-ms = 20\nbatch-window-ms = 1\ndebug-endpoints = true\n")
        server = self.start("--config", self.file, "--tokenizer-threads", "3", "--max-batch-inputs", "2",
                            env={"ESPALIER_REQUEST_TIMEOUT": "90"})
        self.assertEqual(len(server.embed(["a", "b", "c", "d", "e"])), 5)
        self.assertEqual(server.get("/debug/trie").status, 200)
        server.stop()

    def test_mistakes_name_their_source(self):
        self.write("max-batch-token = 5\n")
        self.assert_refused(self.inspect("--config", self.file), 2,
                            "espalier.toml.*`max-batch-token`.*max-batch-tokens")
        self.write('dedup = "sometimes"\n')
        self.assert_refused(self.inspect("--config", self.file), 2, "espalier.toml.*`dedup`.*sometimes")
        self.write("dedup = \n")
        self.assert_refused(self.inspect("--config", self.file), 2, "espalier.toml.*line 1")
        self.write("threads = [1, 2]\n")
        self.assert_refused(self.inspect("--config", self.file), 2, "`threads`")
        self.assert_refused(self.inspect("--config", "/nowhere/espalier.toml"), 2, "/nowhere/espalier.toml")
        self.assert_refused(self.inspect(env={"ESPALIER_THREADS": "many"}), 2, "ESPALIER_THREADS.*many")

    def test_more_input_tokens_than_the_model_has_positions(self):
        done = run_espalier("embed", "--model", MODEL, "--max-input-tokens", "5000")
        self.assert_refused(done, 1, "5000.*2048")


if __name__ == "__main__":
    unittest.main()
