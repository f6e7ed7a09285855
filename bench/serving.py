#!/usr/bin/env python3
"""Requests a second through HTTP, with shared prefixes computed once (--dedup trie) and every time (--dedup off).

  bench/serving.py [--workload msmarco,rerank,synthetic] [--model FOLDER] [--dtype bf16] [--rounds 3] [--json FILE]

Two servers are started and get the same requests in turn, trie, off, trie, off, …, so that a machine whose speed
drifts treats them alike; the ratio is taken within each round. Before anything is timed, both must give the same
embeddings. The workloads, each with its defaults for --requests and --in-flight:

  msmarco    64 prompts a request to /v1/embeddings, 16 requests in flight: Qwen3-Reranker's whole template as text,
             8 queries of 8 tokens on average with about 8 passages of 85 each, shuffled (bench/msmarco_workload.py)
  rerank     the same queries, each a request to /v1/rerank; 64 in flight
  synthetic  32 inputs of token ids a request to /v1/embeddings, 2 in flight: 512 tokens that the inputs of a request
             share, another 512 in each request, and 64 tokens of each input's own

Without --model a model of Qwen3-0.6B's sizes with random weights is used, and made on the first run; it needs Qwen3's
tokenizer.json, and says how to get it. Progress goes to stderr, the table to stdout. With the defaults, expect an hour
on two cores; --quick checks in seconds, with the bundled model, that everything works. Needs numpy.

Columns: `rows` is what the model computed for `tokens`; `predicted` is rows of off / rows of trie, what the ratio would
be if every row cost the same; `computing` the share of the time in which a forward pass ran, `idle` the share in which
the worker stood still although inputs waited (if the server tells); `others` the CPUs that other programs took.
"""
import argparse
import base64
import datetime
import itertools
import json
import os
import random
import statistics
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import bench_server
import msmarco_workload
from bench_server import ROOT, answer, grown, post, say, send
from serving_report import METRICS, summarise, table

sys.path.append(str(ROOT / "bench/peers"))
import machine  # noqa: E402  it lies next to its first user

MODES = ("trie", "off")
COSINE_MIN = 0.999


@dataclass
class Workload:
    name: str
    path: str
    samples: list   # bodies that are compared and warm up, but not timed
    bodies: list    # bodies of the timed requests, the same ones in every round
    prompts: int    # of all timed requests
    in_flight: int
    about: dict


@dataclass(frozen=True)
class Size:
    """How much of a workload one round is."""
    requests: int
    in_flight: int
    prompts: int     # of a request
    shared: int = 0  # tokens, synthetic only
    own: int = 0


SIZES = {"msmarco": Size(32, 16, 64), "rerank": Size(128, 64, 8), "synthetic": Size(8, 2, 32, 512, 64)}
QUICK_SIZES = {"msmarco": Size(4, 4, 16), "rerank": Size(6, 4, 8), "synthetic": Size(3, 2, 4, 48, 16)}


# Workloads ------------------------------------------------------------------------------------------------------


def embeddings_body(inputs):
    return json.dumps({"input": inputs, "encoding_format": "base64"}).encode()


def check_averages(queries, arguments):
    """Prints what the texts have become under this tokenizer; the figures, for the report."""
    measured = msmarco_workload.measure(
        queries, lambda texts: bench_server.tokenize(arguments.binary, arguments.model, texts))
    say(msmarco_workload.describe(measured))
    if not arguments.quick and not msmarco_workload.is_as_meant(measured):
        say(f"note: meant are {msmarco_workload.QUERY_TOKENS} and {msmarco_workload.PASSAGE_TOKENS} tokens on average; "
            "few requests, or not Qwen3's tokenizer")
    return measured


def msmarco(size, arguments):
    requests = msmarco_workload.requests(size.requests + arguments.warm_up, size.prompts, arguments.seed)
    bodies = [embeddings_body(msmarco_workload.shuffled_prompts(queries, number))
              for number, queries in enumerate(requests)]
    timed = requests[:size.requests]
    return Workload("msmarco", "/v1/embeddings", bodies[size.requests:], bodies[:size.requests],
                    size.prompts * size.requests, size.in_flight,
                    check_averages(list(itertools.chain(*timed)), arguments))


def rerank(size, arguments):
    """The queries of `msmarco`, in its order, until there are enough requests."""
    per_request = SIZES["msmarco"].prompts
    count = size.requests + arguments.warm_up
    queries = list(itertools.chain(*msmarco_workload.requests(-(-count // size.prompts), per_request, arguments.seed)))
    bodies = [json.dumps({"query": query.text, "documents": query.passages}).encode() for query in queries]
    timed = queries[:size.requests]
    return Workload("rerank", "/v1/rerank", bodies[size.requests:count], bodies[:size.requests],
                    sum(len(query.passages) for query in timed), size.in_flight, check_averages(timed, arguments))


def synthetic(size, arguments):
    end = bench_server.end_tokens(arguments.binary, arguments.model)
    vocabulary = json.loads((arguments.model / "config.json").read_text())["eos_token_id"]  # special tokens are behind
    rng = random.Random(arguments.seed)

    def ids(count):
        return [rng.randrange(vocabulary) for _ in range(count)]

    def body():
        shared = ids(size.shared)
        return embeddings_body([shared + ids(size.own - len(end)) + end for _ in range(size.prompts)])

    bodies = [body() for _ in range(size.requests + arguments.warm_up)]
    return Workload("synthetic", "/v1/embeddings", bodies[size.requests:], bodies[:size.requests],
                    size.prompts * size.requests, size.in_flight,
                    {"inputs": size.prompts, "shared_tokens": size.shared, "own_tokens": size.own})


WORKLOADS = {"msmarco": msmarco, "rerank": rerank, "synthetic": synthetic}


# Answers --------------------------------------------------------------------------------------------------------


def vectors(body):
    """An answer as a matrix: an embedding a row, or one row of scores."""
    parsed = json.loads(body)
    if "data" in parsed:
        return np.stack([np.frombuffer(base64.b64decode(entry["embedding"]), "<f4") for entry in parsed["data"]])
    return np.array([[result["relevance_score"]
                      for result in sorted(parsed["results"], key=lambda result: result["index"])]])


def compare(servers, workload):
    """Sends the samples to both servers, which warms them up, and holds the first answers against each other."""
    answers = {}
    for mode, server in servers.items():
        connection = server.connect()
        for number, body in enumerate(workload.samples):
            started = time.monotonic()
            got = post(connection, workload.path, body)
            say(f"{workload.name}: warming up, {mode}, {number + 1} of {len(workload.samples)}: "
                f"{time.monotonic() - started:.2f} s")
            answers.setdefault(mode, vectors(got))
        connection.close()
    a, b = (answers[mode].astype(np.float64) for mode in MODES)
    cosine = float((np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min())
    result = {"same_bits": bool(np.array_equal(a, b)), "max_difference": float(abs(a - b).max()), "min_cosine": cosine}
    if not cosine >= COSINE_MIN:
        sys.exit(f"{workload.name}: trie and off disagree: {result}")
    if result["same_bits"]:
        say(f"{workload.name}: trie and off give the same bits")
    else:
        say(f"{workload.name}: trie and off do NOT give the same bits, which --gemm native promises: {result}")
    return result


# Timing ---------------------------------------------------------------------------------------------------------


class Load:
    """Sends all bodies of a workload, so many at a time, each sender on a connection that stays open."""

    def __init__(self, server, workload):
        self.server, self.workload = server, workload
        self.bodies = iter(workload.bodies)
        self.lock = threading.Lock()
        self.done = 0
        self.latencies = []
        self.errors = []

    def next_body(self):
        with self.lock:
            return None if self.errors else next(self.bodies, None)

    def send_some(self, connection):
        try:
            while (body := self.next_body()) is not None:
                started = time.monotonic()
                send(connection, self.workload.path, body)
                answer(connection)
                with self.lock:
                    self.done += 1
                    self.latencies.append(time.monotonic() - started)
        except Exception as error:  # told by run(), on the main thread
            self.errors.append(error)

    def run(self, on_progress):
        """Seconds from the first request to the last answer."""
        connections = [self.server.connect() for _ in range(min(self.workload.in_flight, len(self.workload.bodies)))]
        senders = [threading.Thread(target=self.send_some, args=(connection,), daemon=True)
                   for connection in connections]
        started = time.monotonic()
        for sender in senders:
            sender.start()
        for sender in senders:
            while sender.is_alive():
                sender.join(0.5)
                on_progress(self.done, time.monotonic() - started)
        seconds = time.monotonic() - started
        for connection in connections:
            connection.close()
        if self.errors:
            sys.exit(f"{self.workload.name}: {self.errors[0]}")
        return seconds


class Clockwork:
    """What has been timed and what is to come, to say how long it will take."""

    def __init__(self, workloads, rounds):
        self.left = {(workload.name, mode): rounds for workload in workloads for mode in MODES}
        self.seconds = {}

    def done(self, name, mode, seconds):
        self.left[name, mode] -= 1
        self.seconds[name, mode] = seconds

    def seconds_left(self, name, mode, now_left):
        """With `now_left` in the run that is under way; and whether there is more, of unknown length."""
        known = now_left
        unknown = False
        for key, count in self.left.items():
            count -= key == (name, mode)
            if key in self.seconds:
                known += count * self.seconds[key]
            else:
                unknown = unknown or count > 0
        return known, unknown


def duration(seconds):
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Progress:
    """Tells how one run of a workload goes."""

    def __init__(self, line, clockwork, workload, mode, title):
        self.line, self.clockwork, self.workload, self.mode, self.title = line, clockwork, workload, mode, title

    def __call__(self, done, seconds):
        total = len(self.workload.bodies)
        if not done or done == total:
            self.line.show(f"{self.title}: {done} of {total} requests, {seconds:.0f} s")
            return
        left = seconds / done * (total - done)
        all_left, more = self.clockwork.seconds_left(self.workload.name, self.mode, left)
        prompts = self.workload.prompts / total * done / seconds
        self.line.show(f"{self.title}: {done} of {total} requests, {prompts:.1f} prompts/s, {duration(left)} left; "
                       f"of everything {duration(all_left)}{' and more' if more else ''}")


def measure(server, workload, servers, on_progress):
    """One round of one mode."""
    processes = [os.getpid(), *(other.process.pid for other in servers.values())]
    before, busy, own = server.metrics(), machine.busy_seconds(), machine.own_seconds(processes)
    load = Load(server, workload)
    seconds = load.run(on_progress)
    others = machine.busy_seconds() - busy - (machine.own_seconds(processes) - own)
    after = server.metrics()
    result = {name: grown(before, after, metric) for name, metric in METRICS.items()}
    return result | {
        "seconds": seconds,
        "requests_per_second": len(workload.bodies) / seconds,
        "prompts_per_second": workload.prompts / seconds,
        "tokens_per_second": result["tokens"] / seconds,
        "latency_seconds": {"median": statistics.median(load.latencies), "max": max(load.latencies)},
        "cpus_of_others": max(0.0, others / seconds),
    }


def race(servers, workload, rounds, clockwork, line):
    """Mode -> results of its rounds."""
    results = {mode: [] for mode in MODES}
    for number in range(rounds):
        for mode in MODES:
            title = f"{workload.name} {number + 1}/{rounds} {mode}"
            progress = Progress(line, clockwork, workload, mode, title)
            result = measure(servers[mode], workload, servers, progress)
            clockwork.done(workload.name, mode, result["seconds"])
            results[mode].append(result)
            line.clear()
            say(f"{title}: {result['seconds']:.2f} s, {result['requests_per_second']:.3f} requests/s, "
                f"{result['prompts_per_second']:.2f} prompts/s, {result['tokens_per_second']:.0f} tokens/s "
                f"(others: {result['cpus_of_others']:.1f} CPUs)")
    return results


# Results --------------------------------------------------------------------------------------------------------


def write(arguments, version, summaries):
    report = {"date": datetime.date.today().isoformat(), "machine": machine.describe(), "version": version,
              "model": arguments.model.name, "dtype": arguments.dtype, "threads": arguments.threads,
              "extra_server_args": arguments.extra_server_args.split(), "rounds": arguments.rounds,
              "seed": arguments.seed, "workloads": summaries}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    say(f"wrote {arguments.json}")


def chosen_workloads(text):
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in WORKLOADS:
            raise argparse.ArgumentTypeError(f"no workload `{name}`; there are {', '.join(WORKLOADS)}")
    return names


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", type=chosen_workloads, default=list(WORKLOADS), metavar="NAMES",
                        help="by commas; default: " + ",".join(WORKLOADS))
    parser.add_argument("--binary", type=Path, default=bench_server.BINARY)
    parser.add_argument("--model", type=Path, help="default: build/random-0.6b, made if it is missing")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--threads", type=int, default=0, help="of each server; 0: as many as there are CPUs")
    parser.add_argument("--requests", type=positive, help="of a round; default: " + ", ".join(
        f"{size.requests} of {name}" for name, size in SIZES.items()))
    parser.add_argument("--in-flight", type=positive, help="requests sent at once; default: " + ", ".join(
        f"{size.in_flight} of {name}" for name, size in SIZES.items()))
    parser.add_argument("--rounds", type=positive, help="default 3; with --quick 1")
    parser.add_argument("--warm-up", type=positive, default=2, help="requests to each server before it is timed; the "
                        "answers to the first one are compared (default 2)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--extra-server-args", default="", metavar="'ARGS'",
                        help="for both servers, in one string: --extra-server-args='--max-batch-tokens 8192'")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes all figures there")
    parser.add_argument("--quick", action="store_true",
                        help="small requests, one round, the bundled model: a smoke test")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    return arguments


def size_of(name, arguments):
    size = (QUICK_SIZES if arguments.quick else SIZES)[name]
    return Size(arguments.requests or size.requests, arguments.in_flight or size.in_flight, size.prompts, size.shared,
                size.own)


def start_server(mode, arguments):
    say(f"starting the server with --dedup {mode}")
    threads = max(256, (arguments.in_flight or 0) + 32)  # each request in flight takes one
    return bench_server.Server(arguments.binary, [
        "--model", arguments.model, "--dtype", arguments.dtype, "--threads", arguments.threads, "--dedup", mode,
        "--http-threads", threads, *arguments.extra_server_args.split()])


def main():
    arguments = parse_arguments()
    bench_server.need_binary(arguments.binary)
    if arguments.model is None:
        arguments.model = bench_server.MINI_MODEL if arguments.quick else bench_server.RANDOM_MODEL
    if arguments.model != bench_server.MINI_MODEL:
        bench_server.need_model(arguments.model, arguments.binary)
    workloads = [WORKLOADS[name](size_of(name, arguments), arguments) for name in arguments.workload]
    servers, summaries = {}, []
    line, clockwork = bench_server.ProgressLine(), Clockwork(workloads, arguments.rounds)
    try:
        for mode in MODES:
            servers[mode] = start_server(mode, arguments)
        for workload in workloads:
            answers = compare(servers, workload)
            results = race(servers, workload, arguments.rounds, clockwork, line)
            summaries.append(summarise(workload, answers, results))
    finally:
        line.clear()
        for server in servers.values():
            server.stop()
    print("\n".join(table(summaries)))
    if arguments.json:
        write(arguments, bench_server.version(arguments.binary), summaries)


if __name__ == "__main__":
    main()
