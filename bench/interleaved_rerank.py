#!/usr/bin/env python3
"""How many rows more than needed are computed when requests that share prefixes arrive interleaved.

  bench/interleaved_rerank.py [--query-tokens 8,64] [--max-batch-tokens 4096] [--limit 3] [--json FILE]

Eight rerank requests of 64 documents become 512 prompts, and each prompt a request of its own to /v1/embeddings. They
are sent all at once in random order, behind a request that keeps the worker busy until all of them wait in the queue.
Then the rows computed for them (/metrics, without those of the first request) are held against

  needed = distinct prefixes of all prompts + (batches - 1) × prefix that all prompts share

since each batch has to compute the template again, but a query only once if its prompts go together. How much there is
to lose grows with the queries' length, so that is varied. Beside it stand
two figures computed here, under the same budget of rows and a trie for each batch: `arrival order`, first in, first out
without regard to prefixes, and `sorted`, the prompts batched in order of their tokens.

Prints a table; with --limit it fails if the server's excess is above so many percent. The bundled model by default:
rows do not depend on the model, but on its tokenizer. Python's standard library is enough.
"""
import argparse
import json
import math
import random
import resource
import sys
import time
from pathlib import Path

import bench_server
import msmarco_workload
from bench_server import answer, grown, post, say, send

PATH = "/v1/embeddings"
BLOCKER_INPUT_TOKENS = 512  # of fewer than eight times a prompt's tokens: prompts must not overtake
BLOCKER_BATCHES_MAX = 200
POLL_SECONDS = 0.005
TRIES = 5


class Disturbed(Exception):
    """The prompts did not all wait together, so the figures would mean something else."""


# What is needed -------------------------------------------------------------------------------------------------


class Trie:
    """Distinct prefixes, as nested dictionaries."""

    def __init__(self):
        self.root, self.rows, self.sequences = {}, 0, 0

    def new_rows(self, ids):
        node = self.root
        for depth, id_ in enumerate(ids):
            node = node.get(id_)
            if node is None:
                return len(ids) - depth
        return 0

    def add(self, ids):
        self.rows += self.new_rows(ids)
        self.sequences += 1
        node = self.root
        for id_ in ids:
            node = node.setdefault(id_, {})


def distinct_prefixes(sequences):
    trie = Trie()
    for ids in sequences:
        trie.add(ids)
    return trie.rows


def shared_by_all(sequences):
    """Tokens of the longest prefix that all have."""
    first, last = min(sequences), max(sequences)
    return next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), min(len(first), len(last)))


def in_order(sequences, rows_max):
    """(rows, batches) when each batch takes prompts in this order until the next one does not fit."""
    batches = [Trie()]
    for ids in sequences:
        if batches[-1].sequences and batches[-1].rows + batches[-1].new_rows(ids) > rows_max:
            batches.append(Trie())
        batches[-1].add(ids)
    return sum(trie.rows for trie in batches), len(batches)


def figures(rows, batches, distinct, template):
    needed = distinct + (batches - 1) * template
    return {"rows": rows, "batches": batches, "needed": needed, "excess_percent": round(100 * (rows / needed - 1), 2)}


# The server -----------------------------------------------------------------------------------------------------


def blocker_inputs(batches, rows_max, end):
    """Token ids that fill so many batches to the last row and share nothing."""
    per_batch = max(1, rows_max // BLOCKER_INPUT_TOKENS)
    count, length = batches * per_batch, rows_max // per_batch
    vocabulary = end[0] if end else 1000  # special tokens are behind
    rng = random.Random(2)
    firsts = rng.sample(range(vocabulary), count)
    return [[first, *(rng.randrange(vocabulary) for _ in range(length - 1 - len(end))), *end] for first in firsts]


def body(inputs):
    return json.dumps({"input": inputs, "encoding_format": "base64"}).encode()


class Meter:
    """What the server has counted since it was made."""

    def __init__(self, server):
        self.server = server
        self.start = server.metrics()

    def read(self):
        now = self.server.metrics()
        counted = {name: int(grown(self.start, now, f"espalier_{name}_total") or 0)
                   for name in ("tokens", "compact_tokens", "sequences", "batches", "interludes", "batch_failures")}
        return counted | {"waiting": int(now["espalier_queue_tickets"])}


def wait_until_all_wait(meter, prompts, blockers, per_batch):
    """Returns once every prompt is in the queue and none in a batch: two batches of blockers at most are under way."""
    while True:
        now = meter.read()
        left = max(0, blockers - now["sequences"] - 2 * per_batch)
        if now["waiting"] >= prompts + left:
            return now
        if now["sequences"] >= blockers:
            raise Disturbed(f"only {now['waiting']} of {prompts} prompts waited when the first request was done")
        time.sleep(POLL_SECONDS)


def measure(server, prompts, blockers, rows_max):
    """Sends the blocking request, then all prompts; what was computed for the prompts."""
    per_batch = max(1, rows_max // BLOCKER_INPUT_TOKENS)
    blocker_tokens = sum(map(len, blockers))
    bodies = [body(prompt) for prompt in prompts]
    blocking, connections = server.connect(), [server.connect() for _ in prompts]
    meter = Meter(server)
    started = time.monotonic()
    send(blocking, PATH, body(blockers))
    while (now := meter.read())["waiting"] == 0 and now["batches"] == 0:
        time.sleep(POLL_SECONDS)
    for connection, prompt_body in zip(connections, bodies, strict=True):
        send(connection, PATH, prompt_body)
    waited = wait_until_all_wait(meter, len(prompts), len(blockers), per_batch)
    say(f"all {len(prompts)} prompts wait after {time.monotonic() - started:.2f} s, "
        f"{waited['batches']} batches of the first request are done")

    blocker_batches = None
    line = bench_server.ProgressLine()
    while (now := meter.read())["sequences"] < len(blockers) + len(prompts):
        if now["batch_failures"]:
            sys.exit("a batch failed; see the server's log")
        if now["compact_tokens"] == blocker_tokens:
            blocker_batches = now["batches"]
        done = now["sequences"] / (len(blockers) + len(prompts))
        seconds = time.monotonic() - started
        left = f", about {seconds / done - seconds:.0f} s left" if done else ""
        line.show(f"{now['sequences']} of {len(blockers) + len(prompts)} inputs computed{left}")
        time.sleep(POLL_SECONDS)
    line.clear()
    for connection in [blocking, *connections]:
        answer(connection)
        connection.close()
    if now["interludes"]:
        raise Disturbed("short batches ran within a long one")
    if blocker_batches is None:
        blocker_batches = len(blockers) // per_batch
        say(f"note: the first request is taken to have had {blocker_batches} batches; the moment of its end was missed")
    return {"tokens": now["tokens"] - blocker_tokens, "rows": now["compact_tokens"] - blocker_tokens,
            "batches": now["batches"] - blocker_batches}


def measure_undisturbed(server, prompts, arguments):
    """As `measure`, with a longer first request if it was too short."""
    end = bench_server.end_tokens(arguments.binary, arguments.model)
    one_batch = blocker_inputs(1, arguments.max_batch_tokens, end)
    started = time.monotonic()
    connection = server.connect()
    post(connection, PATH, body(one_batch))
    connection.close()
    seconds = time.monotonic() - started
    batches = min(BLOCKER_BATCHES_MAX, max(2, math.ceil(arguments.block_seconds / seconds)))
    for attempt in range(TRIES):
        say(f"the first request fills {batches} batches, about {batches * seconds:.1f} s")
        try:
            return measure(server, prompts, blocker_inputs(batches, arguments.max_batch_tokens, end),
                           arguments.max_batch_tokens)
        except Disturbed as disturbed:
            say(f"try {attempt + 1} of {TRIES}: {disturbed}")
            wait_until_idle(server)
            batches = min(BLOCKER_BATCHES_MAX, 2 * batches)
    sys.exit("the prompts never waited together; a larger --block-seconds or --max-batch-tokens may help")


def wait_until_idle(server):
    meter = Meter(server)
    before = None
    while (now := meter.read()) != before or now["waiting"]:
        before = now
        time.sleep(1)


# Command --------------------------------------------------------------------------------------------------------


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=bench_server.BINARY)
    parser.add_argument("--model", type=Path, default=bench_server.MINI_MODEL)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--reranks", type=int, default=8, help="rerank requests that are interleaved (default 8)")
    parser.add_argument("--documents", type=int, default=64, help="of each (default 64)")
    parser.add_argument("--query-tokens", type=lambda text: [int(part) for part in text.split(",")], default=[8, 64],
                        metavar="LIST", help="average length of the queries, a measurement for each (default 8,64)")
    parser.add_argument("--max-batch-tokens", type=int, default=4096, help="rows of a batch (default 4096)")
    parser.add_argument("--block-seconds", type=float, default=3, help="how long the worker is kept busy (default 3)")
    parser.add_argument("--limit", type=float, metavar="PERCENT", help="exit with 1 if the excess is above it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--extra-server-args", default="", metavar="'ARGS'",
                        help="in one string: --extra-server-args='--threads 2'")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes all figures there")
    return parser.parse_args()


def allow_many_connections(count):
    """Each prompt has a connection, and this process and the server need a file descriptor for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * count + 256:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def table(measurements):
    yield "| query tokens | order | rows | batches | needed | excess |"
    yield "|---|---|---|---|---|---|"
    for m in measurements:
        for name, r in m["orders"].items():
            yield (f"| {m['query_tokens']} | {name} | {r['rows']} | {r['batches']} | {r['needed']} "
                   f"| {r['excess_percent']:.1f} % |")


def draw_prompts(query_tokens, arguments):
    writer = msmarco_workload.Writer(arguments.seed)
    queries = [writer.query(arguments.documents, query_tokens) for _ in range(arguments.reranks)]
    return msmarco_workload.shuffled_prompts(queries, arguments.seed)


def run(server, query_tokens, arguments):
    prompts = draw_prompts(query_tokens, arguments)
    sequences = bench_server.tokenize(arguments.binary, arguments.model, prompts, special_tokens=True)
    tokens = sum(map(len, sequences))
    distinct, template = distinct_prefixes(sequences), shared_by_all(sequences)
    say(f"{len(prompts)} prompts of {arguments.reranks} queries: {tokens} tokens, {distinct} distinct prefixes, "
        f"{template} tokens shared by all")
    measured = measure_undisturbed(server, prompts, arguments)
    if measured["tokens"] != tokens:
        sys.exit(f"the server counted {measured['tokens']} tokens of the prompts, espalier tokenize {tokens}")
    orders = {"server": (measured["rows"], measured["batches"]),
              "arrival order": in_order(sequences, arguments.max_batch_tokens),
              "sorted": in_order(sorted(sequences), arguments.max_batch_tokens)}
    return {"query_tokens": query_tokens, "tokens": tokens, "distinct_prefixes": distinct, "shared_by_all": template,
            "orders": {name: figures(rows, batches, distinct, template) for name, (rows, batches) in orders.items()}}


def write(arguments, measurements):
    work = {key: getattr(arguments, key) for key in ("reranks", "documents", "max_batch_tokens", "seed")}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({
        "version": bench_server.version(arguments.binary), "model": arguments.model.name,
        "extra_server_args": arguments.extra_server_args.split(), "work": work, "measurements": measurements},
        indent=2) + "\n")
    say(f"wrote {arguments.json}")


def main():
    arguments = parse_arguments()
    bench_server.need_binary(arguments.binary)
    connections = arguments.reranks * arguments.documents
    allow_many_connections(connections)
    server = bench_server.Server(arguments.binary, [
        "--model", arguments.model, "--dtype", arguments.dtype, "--max-batch-tokens", arguments.max_batch_tokens,
        "--http-threads", connections + 64, *arguments.extra_server_args.split()])
    try:
        measurements = [run(server, query_tokens, arguments) for query_tokens in arguments.query_tokens]
    finally:
        server.stop()
    print("\n".join(table(measurements)), flush=True)
    if arguments.json:
        write(arguments, measurements)
    excess = max(measurement["orders"]["server"]["excess_percent"] for measurement in measurements)
    if arguments.limit is not None and excess > arguments.limit:
        sys.exit(f"{excess:.1f} % more rows than needed; the limit is {arguments.limit} %")


if __name__ == "__main__":
    main()
