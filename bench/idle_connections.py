#!/usr/bin/env python3
"""What a client notices of a thousand idle connections and fifty slow senders, and what those cost a server at rest.

  bench/idle_connections.py [--idle 1000] [--slow 50] [--rounds 10] [--requests 300] [--json FILE]

One server with the bundled model gets short embedding requests from one client on one connection, in rounds that take
turns: nobody else is connected; or a thousand connections are idle (half of them have been used) and fifty more send a
byte of a body five times a second. They belong to a process of their own, so that they do not slow down the client that
is timed. Every answer must be, in every bit, what the server answered before any of that. Then the idle ones alone stay,
nobody asks anything for ten seconds, and the CPU time of the server is read from /proc.

Prints a table: median and 99th percentile of a request in milliseconds over all rounds of a kind, the ratios of the two
kinds, and the share of one CPU that the server took at rest. Exit code 1 if a ratio or the share is beyond its target
(--no-targets: never).
"""
import argparse
import json
import multiprocessing
import os
import resource
import socket
import statistics
import sys
import time
from pathlib import Path

import bench_server
from bench_server import post, say

PATH = "/v1/embeddings"
TEXTS = ["a cat sat on the mat", "how do I brew tea?", "salt", "the quick brown fox", "a small web server"]
MEDIAN_RATIO_MAX, P99_RATIO_MAX, CPU_SHARE_MAX = 1.2, 2.0, 0.02
DRIP_SECONDS = 0.2
KINDS = ("alone", "crowded")


# The crowd, in a process of its own -------------------------------------------------------------------------------


class Crowd:
    """Connections that are idle, and ones that send slowly."""

    def __init__(self, port):
        self.port = port
        self.idle = []
        self.slow = []

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def open_idle(self, count):
        self.idle = [self.connect() for _ in range(count)]
        for connection in self.idle[::2]:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: bench\r\n\r\n")
            if not connection.recv(65536).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("GET /livez was not answered 200")

    def start_slow(self):
        connection = self.connect()
        connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
                           "Content-Length: 1000000\r\n\r\n{".encode())
        return connection

    def open_slow(self, count):
        self.slow = [self.start_slow() for _ in range(count)]

    def drip(self):
        """A byte from each slow sender; one that the server has given up starts again."""
        for number, connection in enumerate(self.slow):
            try:
                connection.sendall(b" ")
            except OSError:
                connection.close()
                self.slow[number] = self.start_slow()

    def close(self):
        for connection in self.idle + self.slow:
            connection.close()
        self.idle, self.slow = [], []


def run_crowd(port, pipe):
    """Obeys (idle, slow): so many are connected when it answers. None ends it."""
    crowd = Crowd(port)
    while True:
        if not pipe.poll(DRIP_SECONDS):
            crowd.drip()
            continue
        order = pipe.recv()
        crowd.close()
        if order is None:
            return
        idle, slow = order
        crowd.open_idle(idle)
        crowd.open_slow(slow)
        pipe.send(order)


# Measuring --------------------------------------------------------------------------------------------------------


def body_of(text):
    return json.dumps({"input": text, "encoding_format": "base64"}).encode()


def vector_of(answer):
    return json.loads(answer)["data"][0]["embedding"]


def run_round(server, count, expected):
    """Seconds of each request."""
    connection = server.connect()
    seconds = []
    try:
        for number in range(count):
            text = TEXTS[number % len(TEXTS)]
            start = time.perf_counter()
            answer = post(connection, PATH, body_of(text))
            seconds.append(time.perf_counter() - start)
            if vector_of(answer) != expected[text]:
                raise RuntimeError(f"another answer than before for {text!r}")
    finally:
        connection.close()
    return seconds


def cpu_seconds(pid):
    """Of the whole process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_share_at_rest(server, seconds):
    time.sleep(1)  # what the last requests started is over
    before, start = cpu_seconds(server.process.pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(server.process.pid) - before) / (time.monotonic() - start)


def order(pipe, idle, slow):
    pipe.send((idle, slow))
    pipe.recv()


def measure(server, pipe, arguments):
    connection = server.connect()
    expected = {text: vector_of(post(connection, PATH, body_of(text))) for text in TEXTS}
    connection.close()
    run_round(server, arguments.requests, expected)  # not counted
    seconds, line = {kind: [] for kind in KINDS}, bench_server.ProgressLine()
    for number in range(arguments.rounds):
        for kind in KINDS:
            crowded = kind == "crowded"
            order(pipe, arguments.idle * crowded, arguments.slow * crowded)
            line.show(f"round {number + 1} of {arguments.rounds}, {kind}")
            seconds[kind].append(run_round(server, arguments.requests, expected))
    line.clear()
    order(pipe, arguments.idle, 0)
    say(f"{arguments.rest:g} s of rest")
    return seconds, cpu_share_at_rest(server, arguments.rest)


# The report -------------------------------------------------------------------------------------------------------


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def summarise(seconds, cpu_share, arguments):
    kinds = {}
    for kind, rounds in seconds.items():
        every = [value for one in rounds for value in one]
        kinds[kind] = {"requests": len(every), "median_seconds": statistics.median(every),
                       "p99_seconds": percentile(every, 0.99),
                       "median_seconds_of_rounds": [statistics.median(one) for one in rounds]}
    alone, crowded = kinds["alone"], kinds["crowded"]
    return {"idle_connections": arguments.idle, "slow_senders": arguments.slow, "kinds": kinds,
            "median_ratio": crowded["median_seconds"] / alone["median_seconds"],
            "p99_ratio": crowded["p99_seconds"] / alone["p99_seconds"],
            "cpu_share_at_rest": cpu_share}


def table(summary):
    """Markdown."""
    kinds = summary["kinds"]
    crowd = f"{summary['idle_connections']} idle, {summary['slow_senders']} slow"
    yield "| | median | p99 |"
    yield "|---|---|---|"
    for name, kind in (("alone", kinds["alone"]), (crowd, kinds["crowded"])):
        yield f"| {name} | {1e3 * kind['median_seconds']:.2f} ms | {1e3 * kind['p99_seconds']:.2f} ms |"
    yield f"| ratio | {summary['median_ratio']:.3f} | {summary['p99_ratio']:.3f} |"
    yield f"| at most | {MEDIAN_RATIO_MAX} | {P99_RATIO_MAX} |"
    yield ""
    yield (f"CPU of the server at rest with {summary['idle_connections']} idle connections: "
           f"{100 * summary['cpu_share_at_rest']:.2f} % (at most {100 * CPU_SHARE_MAX:.0f} %)")


def within_targets(summary):
    return (summary["median_ratio"] <= MEDIAN_RATIO_MAX and summary["p99_ratio"] <= P99_RATIO_MAX
            and summary["cpu_share_at_rest"] <= CPU_SHARE_MAX)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=bench_server.BINARY)
    parser.add_argument("--model", type=Path, default=bench_server.MINI_MODEL)
    parser.add_argument("--idle", type=int, default=1000, help="idle connections (default 1000)")
    parser.add_argument("--slow", type=int, default=50, help="slow senders (default 50)")
    parser.add_argument("--rounds", type=int, default=10, help="of each kind (default 10)")
    parser.add_argument("--requests", type=int, default=300, help="of a round (default 300)")
    parser.add_argument("--rest", type=float, default=10, metavar="SECONDS", help="of rest (default 10)")
    parser.add_argument("--extra-server-args", default="", metavar="'ARGS'")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes all figures there")
    parser.add_argument("--no-targets", action="store_true", help="exit code 0 whatever was measured")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    bench_server.need_binary(arguments.binary)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = bench_server.Server(arguments.binary, ["--model", arguments.model, *arguments.extra_server_args.split()])
    pipe, end = multiprocessing.Pipe()
    crowd = multiprocessing.Process(target=run_crowd, args=(server.port, end), daemon=True)
    crowd.start()
    end.close()  # a crowd that failed is noticed
    try:
        seconds, cpu_share = measure(server, pipe, arguments)
        pipe.send(None)
        crowd.join()
    finally:
        crowd.terminate()
        server.stop()
    summary = summarise(seconds, cpu_share, arguments)
    print("\n".join(table(summary)))
    if arguments.json:
        arguments.json.write_text(json.dumps(
            {"version": bench_server.version(arguments.binary), **summary}, indent=1) + "\n", encoding="utf-8")
    if not arguments.no_targets and not within_targets(summary):
        sys.exit(1)


if __name__ == "__main__":
    main()
