#!/usr/bin/env python3
"""One very long input, and short requests sent while it is computed: memory and waiting times, through HTTP.

  bench/long_input.py build/release/espalier --model FOLDER [--tokens 32768] [--dtype bf16]

Checks that a short text's embedding is the same, bit for bit, before and during the long one. Prints a line of JSON:
seconds of the long input, latencies of the short ones, and the server's peak of resident memory (VmHWM) before and
after. Python's standard library is enough; progress is on stderr.
"""
import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

SHORT = {"input": "a short request that somebody waits for"}


def start(binary, options):
    command = [binary, "serve", "--port", "0", "--request-timeout", "7200", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        ready = re.search(r"is ready at (http://\S+)", line)
        if ready:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, ready.group(1)
    sys.exit(f"{' '.join(command)} did not start")


def embed(url, body):
    request = urllib.request.Request(url + "/v1/embeddings", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=7200) as answer:
        return json.load(answer)["data"][0]["embedding"]


def peak_memory(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1))


def run(process, url, tokens):
    rng = random.Random(3)
    ids = [rng.randrange(1000) for _ in range(tokens)]
    expected = embed(url, SHORT)
    before = peak_memory(process)
    long_seconds = []

    def send_long():
        started = time.monotonic()
        embed(url, {"input": ids})
        long_seconds.append(time.monotonic() - started)

    thread = threading.Thread(target=send_long)
    thread.start()
    time.sleep(1)
    latencies = []
    while thread.is_alive():
        started = time.monotonic()
        if embed(url, SHORT) != expected:
            sys.exit("wrong answer: a short text's embedding changed while the long one was computed")
        if thread.is_alive():
            latencies.append(time.monotonic() - started)
        print(f"\r{len(latencies)} short requests, the longest wait {max(latencies, default=0):.2f} s", end="",
              file=sys.stderr)
        time.sleep(0.5)
    print(file=sys.stderr)
    return {"tokens": tokens, "long_seconds": long_seconds[0], "short_requests": len(latencies),
            "short_seconds": {"median": statistics.median(latencies), "max": max(latencies)},
            "peak_bytes_before": before, "peak_bytes": peak_memory(process)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--dtype", default="auto")
    arguments = parser.parse_args()
    process, url = start(arguments.binary, ["--model", arguments.model, "--dtype", arguments.dtype,
                                            "--max-input-tokens", str(arguments.tokens)])
    try:
        print(json.dumps(run(process, url, arguments.tokens)))
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
