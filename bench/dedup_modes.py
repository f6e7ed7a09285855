#!/usr/bin/env python3
"""How much faster shared prefixes are, through HTTP: the three dedup modes on the same requests, in one run.

  bench/dedup_modes.py build/release/espalier [--model FOLDER] [--rounds 5] [--scale 1.0]

One server for each mode; the modes take turns, so that a machine whose speed drifts treats them alike. Checks that the
answers agree before it times them. Prints a line of JSON for each workload: tokens, rows, median seconds, and how
many times faster than `off`. Python's standard library is enough.
"""
import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import time
import urllib.request

MODES = ("off", "radixmlp", "trie")
WORDS = ("river stone cloud paper engine forest signal garden window copper market bridge winter letter shadow "
         "harbor mirror summer kernel vector").split()


class Server:
    def __init__(self, binary, model, mode):
        command = [binary, "serve", "--port", "0", "--dedup", mode] + (["--model", model] if model else [])
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            ready = re.search(r"is ready at (http://\S+)", line)
            if ready:
                self.url = ready.group(1)
                return
        sys.exit(f"{' '.join(command)} did not start")

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=3600) as answer:
            return json.load(answer)

    def counters(self):
        with urllib.request.urlopen(self.url + "/metrics") as answer:
            text = answer.read().decode()
        return [int(re.search(rf"^{name} (\d+)", text, re.MULTILINE).group(1))
                for name in ("espalier_tokens_total", "espalier_compact_tokens_total")]


def words(rng, count):
    return " ".join(rng.choice(WORDS) for _ in range(count))


def workloads(scale):
    """Name -> (path, body); sizes in words, which are one to two tokens each."""
    rng = random.Random(7)
    size = lambda n: max(1, round(n * scale))
    shared = words(rng, size(256))
    query = words(rng, 8)
    yield "embed 16 texts, 256 words shared + 32 of their own", "/v1/embeddings", {
        "input": [f"{shared} {words(rng, size(32))}" for _ in range(16)]}
    yield "embed 16 texts, nothing shared, 64 words", "/v1/embeddings", {
        "input": [f"{i} {words(rng, size(64))}" for i in range(16)]}
    yield "rerank 16 passages of 60 words", "/v1/rerank", {
        "query": query, "documents": [words(rng, size(60)) for _ in range(16)]}


def numbers(answer):
    if "data" in answer:
        return [x for entry in answer["data"] for x in entry["embedding"]]
    return [r["relevance_score"] for r in sorted(answer["results"], key=lambda r: r["index"])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="length of all texts, relative")
    arguments = parser.parse_args()
    servers = {mode: Server(arguments.binary, arguments.model, mode) for mode in MODES}
    try:
        for name, path, body in workloads(arguments.scale):
            rows, answers, seconds = {}, {}, {mode: [] for mode in MODES}
            for mode, server in servers.items():
                before = server.counters()
                answers[mode] = numbers(server.post(path, body))
                tokens, rows[mode] = (after - b for after, b in zip(server.counters(), before))
            worst = max(abs(a - b) for mode in MODES for a, b in zip(answers[mode], answers["off"]))
            if worst > 1e-4:
                sys.exit(f"{name}: the modes disagree by {worst}")
            for done in range(arguments.rounds):
                for mode, server in servers.items():
                    start = time.perf_counter()
                    server.post(path, body)
                    seconds[mode].append(time.perf_counter() - start)
                print(f"{name}: round {done + 1} of {arguments.rounds}", file=sys.stderr)
            median = {mode: statistics.median(times) for mode, times in seconds.items()}
            print(json.dumps({"workload": name, "tokens": tokens, "rows": rows,
                              "seconds": {mode: round(s, 4) for mode, s in median.items()},
                              "times_off": {mode: round(statistics.median(
                                  off / s for off, s in zip(seconds["off"], seconds[mode])), 2) for mode in MODES}}),
                  flush=True)
    finally:
        for server in servers.values():
            server.process.terminate()
        for server in servers.values():
            server.process.wait()


if __name__ == "__main__":
    main()
