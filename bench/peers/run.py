#!/usr/bin/env python3
"""Times Espalier, llama.cpp and PyTorch on the same work, taking turns in one run.

  bench/peers/run.py build/release/espalier [--model FOLDER] [--rounds 5] [--threads 2] [--engines bf16,q8_0]

The work: 8 inputs of 512 tokens that share nothing, with a model of Qwen3-0.6B's shape and random weights, which
tools/make_random_model.py writes on the first run. Before anything is timed, each engine's answer is held against
PyTorch's f32 answer. An engine that is not installed is left out, with a word on how to install it:

  apt install python3-torch python3-numpy
  npm --prefix bench/peers install --no-save --omit=optional --ignore-scripts     (needs Node 20 or later)

Prints a table of tokens per second and writes all figures to bench/results/. Progress goes to stderr. Needs 10 GB of
memory: all peers stay loaded. The script itself needs the standard library alone. On a machine with other jobs,
--patience waits for a quiet moment and measures again what was disturbed; the column `others` tells how quiet it stayed.
"""
import argparse
import contextlib
import datetime
import json
import math
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import engines
import machine

ROOT = Path(__file__).resolve().parent.parent.parent
REFERENCE = "PyTorch f32"
BASELINES = ("llama.cpp Q8_0", "PyTorch bf16")


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("espalier", help="the binary")
    parser.add_argument("--model", type=Path, default=ROOT / "build/random-0.6b",
                        help="folder with model.safetensors and GGUF files of the same weights; made if missing")
    parser.add_argument("--engines", default="", help="parts of the names of those to time, by commas; default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=0, metavar="SECONDS",
                        help="how long a measurement waits for other jobs to pause, and is repeated if they disturb it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--inputs", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=512, help="tokens of one input")
    parser.add_argument("--torch-batch", type=int, default=4, help="inputs that PyTorch computes at once")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python with torch and numpy")
    parser.add_argument("--node", default="node", help="Node 20 or later")
    parser.add_argument("--out", type=Path, help="default: bench/results/peers-DATE.json")
    return parser.parse_args()


def make_model(arguments):
    if arguments.model.exists():
        return
    say(f"making a model in {arguments.model}")
    generator = [arguments.python, str(ROOT / "tools/make_random_model.py"), str(arguments.model), "--gguf"]
    if subprocess.run(generator, check=False).returncode != 0:
        sys.exit("tools/make_random_model.py failed")


def draw_inputs(arguments):
    """Token ids that share no prefix; all end with the end token, which llama.cpp's binding would add otherwise."""
    config = json.loads((arguments.model / "config.json").read_text())
    end = config["eos_token_id"]
    rng = random.Random(1)
    firsts = rng.sample(range(end), arguments.inputs)
    return [[first, *(rng.randrange(end) for _ in range(arguments.tokens - 2)), end] for first in firsts]


class Field:
    """The engines that take part. One that fails is out, and `missing` says why."""

    def __init__(self):
        self.engines, self.missing = [], {}

    def enter(self, engine):
        with self.guard(engine):
            engines.start(engine)
            self.engines.append(engine)

    @contextlib.contextmanager
    def guard(self, engine):
        try:
            yield
        except engines.EngineError as error:
            say(f"{engine.name} is left out: {error}\n  ({engine.hint})")
            self.missing[engine.name] = str(error)
            self.leave(engine)

    def leave(self, engine):
        engine.close()
        if engine in self.engines:
            self.engines.remove(engine)

    def find(self, name):
        return next((engine for engine in self.engines if engine.name == name), None)

    def processes(self):
        return [process for engine in self.engines for process in engine.running()]

    def close(self):
        for engine in self.engines:
            engine.close()


def is_wanted(name, parts):
    """Whether the name holds one of `parts`; none at all stands for everything."""
    return not parts or any(part.strip().lower() in name.lower() for part in parts.split(","))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def check(field, inputs):
    """Engine -> cosine of its answer to the reference's. Ends the run if one computes something else."""
    reference = field.find(REFERENCE)
    if not reference:
        say(f"{REFERENCE} is missing: the answers are NOT checked")
        return {}
    cosines = {}
    for engine in [engine for engine in field.engines if engine is not reference]:
        with field.guard(engine):
            cosines[engine.name] = cosine(*engine.answer_and_reference(reference, inputs))
            say(f"{engine.name}: cosine {cosines[engine.name]:.6f} to {REFERENCE}")
            if cosines[engine.name] < engine.minimum_cosine:
                sys.exit(f"{engine.name} does not compute the same: cosine below {engine.minimum_cosine}")
    return cosines


def measure(field, engine, inputs):
    """Seconds of one round, and how many CPUs others kept busy meanwhile."""
    processes = field.processes()
    began, busy, own = time.monotonic(), machine.busy_seconds(), machine.own_seconds(processes)
    seconds = engine.measure(inputs)
    wall = time.monotonic() - began
    others = machine.busy_seconds() - busy - (machine.own_seconds(processes) - own)
    return seconds, max(0.0, others / wall)


def measure_undisturbed(field, engine, inputs, patience):
    """As `measure`, again while other jobs disturb it and there is patience. The least disturbed one counts."""
    end = time.monotonic() + patience
    attempts = []
    while not attempts or (attempts[-1][1] > machine.QUIET_CPUS and time.monotonic() < end):
        machine.wait_until_quiet(end)
        attempts.append(measure(field, engine, inputs))
    return min(attempts, key=lambda attempt: attempt[1])


def race(field, inputs, rounds, patience=0.0):
    """Engine -> [(seconds, CPUs of others)] of all rounds. Each round starts with another engine."""
    results = {}
    tokens = sum(map(len, inputs))
    for done in range(rounds):
        shift = done % max(1, len(field.engines))
        for engine in field.engines[shift:] + field.engines[:shift]:
            with field.guard(engine):
                seconds, others = measure_undisturbed(field, engine, inputs, patience)
                results.setdefault(engine.name, []).append((seconds, others))
                say(f"round {done + 1}/{rounds}  {engine.name:16} {tokens / seconds:8.1f} tokens/s"
                    f"  (others: {others:.1f} CPUs)")
    return results


def summarise(field, results, cosines, tokens):
    summary = []
    for engine in field.engines:
        if engine.name not in results:
            continue
        seconds, others = zip(*results[engine.name])
        summary.append({
            "name": engine.name,
            **engine.about,
            "seconds": seconds,
            "cpus_of_others": [round(value, 2) for value in others],
            "tokens_per_second": {"median": tokens / statistics.median(seconds), "best": tokens / min(seconds)},
            "cosine_to_reference": cosines.get(engine.name),
        })
    medians = {entry["name"]: entry["tokens_per_second"]["median"] for entry in summary}
    for entry in summary:
        bases = [base for base in BASELINES if base in medians]
        entry["times_as_fast_as"] = {base: medians[entry["name"]] / medians[base] for base in bases}
    return summary


def table(summary):
    """The same as Markdown, fastest first."""
    bases = " | ".join(f"× {base}" for base in BASELINES)
    yield f"| engine | tokens/s, median | best | {bases} | cosine | others |"
    yield "|---|---|---|" + "---|" * len(BASELINES) + "---|---|"
    for entry in sorted(summary, key=lambda entry: -entry["tokens_per_second"]["median"]):
        rates = entry["tokens_per_second"]
        ratios = [f"{entry['times_as_fast_as'][base]:.2f}" if base in entry["times_as_fast_as"] else "–"
                  for base in BASELINES]
        closeness = entry["cosine_to_reference"]
        cells = [entry["name"], f"{rates['median']:.0f}", f"{rates['best']:.0f}", *ratios,
                 "–" if closeness is None else f"{closeness:.5f}",
                 f"{statistics.median(entry['cpus_of_others']):.1f} CPUs"]
        yield "| " + " | ".join(cells) + " |"


def write(arguments, field, summary):
    today = datetime.date.today().isoformat()
    out = arguments.out or ROOT / f"bench/results/peers-{today}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    keys = ("inputs", "tokens", "threads", "rounds", "torch_batch")
    work = {key: getattr(arguments, key) for key in keys}
    report = {"date": today, "machine": machine.describe(), "work": work, "reference": REFERENCE,
              "engines": summary, "missing": field.missing}
    out.write_text(json.dumps(report, indent=2) + "\n")
    say(f"wrote {out}")


def main():
    arguments = parse_arguments()
    make_model(arguments)
    inputs = draw_inputs(arguments)
    field = Field()
    with contextlib.closing(field):
        for engine in engines.all_engines(arguments, context_tokens=max(1024, 2 * arguments.tokens)):
            if is_wanted(engine.name, arguments.engines) or engine.name == REFERENCE:
                field.enter(engine)
        cosines = check(field, inputs)
        for engine in [engine for engine in field.engines if not is_wanted(engine.name, arguments.engines)]:
            field.leave(engine)
        say("warming up")
        race(field, inputs[:1], 1)
        results = race(field, inputs, arguments.rounds, arguments.patience)
        summary = summarise(field, results, cosines, sum(map(len, inputs)))
        print("\n".join(table(summary)))
        write(arguments, field, summary)


if __name__ == "__main__":
    main()
