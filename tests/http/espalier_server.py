"""Runs the espalier binary for the tests: a server process with its own port, and the other commands.

The binary comes from ESPALIER_BINARY, the bundled model's folder from ESPALIER_MINI_MODEL. Time limits are
multiplied by ESPALIER_TEST_SLOWDOWN, which sanitizer builds set.

    class RerankTest(ServerTest):
        options = ("--dedup", "off")          # one server for all tests of the class: self.server
        def test_…(self):
            reply = self.server.post("/v1/rerank", {"query": "…", "documents": ["…"]})
            self.assertEqual(reply.status, 200)
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

BINARY = os.environ["ESPALIER_BINARY"]
MODEL = os.environ["ESPALIER_MINI_MODEL"]
SLOWDOWN = float(os.environ.get("ESPALIER_TEST_SLOWDOWN", "1"))

END_TOKEN = 8187  # <|endoftext|> of espalier-mini
VOCABULARY = 8192
HIDDEN_SIZE = 256
MAX_TOKENS = 2048


def time_limit(seconds):
    """`seconds` of a fast build, as this build may take them."""
    return seconds * SLOWDOWN


def wait_until(condition, what, seconds_max=30):
    """Returns the first true value of `condition()`; fails with `what` when the time is up."""
    deadline = time.monotonic() + time_limit(seconds_max)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {time_limit(seconds_max):.0f} s in vain: {what}")
        time.sleep(0.005)


def environment(extra=None):
    """This process's environment without ESPALIER_ options, which would change what is tested. ESPALIER_ISA stays;
    computing is in f32 unless a test says otherwise, because what --dtype auto takes depends on the CPU."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("ESPALIER_") or name == "ESPALIER_ISA"}
    clean["ESPALIER_DTYPE"] = "f32"
    suppressions = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tsan_suppressions.txt")
    clean["TSAN_OPTIONS"] = f"{clean.get('TSAN_OPTIONS', '')}:suppressions='{suppressions}'"
    return {**clean, **(extra or {})}


def run_espalier(*arguments, stdin="", env=None, cwd=None, binary=BINARY, seconds_max=60):
    """A command that ends by itself; text in and out."""
    return subprocess.run([binary, *map(str, arguments)], input=stdin, env=environment(env), cwd=cwd,
                          capture_output=True, text=True, timeout=time_limit(seconds_max), check=False)


def json_lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def tokenize(texts, add_special_tokens=True, model=MODEL):
    """Token ids of each text, from `espalier tokenize`."""
    options = ["--add-special-tokens"] if add_special_tokens else []
    done = run_espalier("tokenize", "--model", model, *options, stdin=json_lines({"text": text} for text in texts))
    if done.returncode != 0:
        raise AssertionError(f"espalier tokenize: {done.stderr}")
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


def distinct_prefixes(sequences):
    """How many rows a batch of these token lists needs when each prefix is computed once."""
    return len({tuple(ids[:length]) for ids in sequences for length in range(1, len(ids) + 1)})


def random_inputs(count, length, seed):
    """Token lists that share next to nothing: `count` × `length` tokens of work, end token included."""
    ids = np.random.default_rng(seed).integers(0, END_TOKEN, (count, length - 1))
    return [[*row, END_TOKEN] for row in ids.tolist()]


def golden():
    with open(os.path.join(MODEL, "golden.json"), encoding="utf-8") as file:
        return json.load(file)


def free_port():
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Reply:
    """An answer: status, headers (lower-case names) and body bytes."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    def json(self):
        return json.loads(self.body)

    def error(self):
        return self.json()["error"]

    def embeddings(self):
        """(S × H) in the order of the inputs."""
        data = self.json()["data"]
        assert [entry["index"] for entry in data] == list(range(len(data)))
        return np.array([entry["embedding"] for entry in data], dtype=np.float32)

    def scores(self):
        """Relevance by document index."""
        results = sorted(self.json()["results"], key=lambda result: result["index"])
        return np.array([result["relevance_score"] for result in results])

    def __repr__(self):
        return f"Reply({self.status}, {self.body[:300]!r})"


def read_answer(connection):
    """The next answer on a socket; None if the peer closes it without one. Half an answer raises."""
    answer = http.client.HTTPResponse(connection)
    try:
        answer.begin()
    except (http.client.RemoteDisconnected, ConnectionResetError):
        answer.close()
        return None
    body = answer.read()
    return Reply(answer.status, answer.getheaders(), body)


class Server:
    """`espalier serve` on a free port, ready when the constructor returns."""

    def __init__(self, *options, model=MODEL, env=None, cwd=None, binary=BINARY,
                 preexec_fn=None):
        arguments = [binary, "serve", *map(str, options)]
        if "--port" not in options:
            arguments += ["--port", "0"]
        if model is not None:
            arguments += ["--model", model]
        self.log = []
        self._ready = threading.Event()
        self.port = None
        self.process = subprocess.Popen(arguments, env=environment(env), cwd=cwd, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                                        preexec_fn=preexec_fn)
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self._ready.wait(time_limit(60))
        if self.port is None:
            self.kill()
            raise AssertionError(f"{' '.join(arguments)} did not get ready:\n{self.log_text()}")

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)
            ready = re.search(r' is ready at https?://[^\s"]*:(\d+)(?:"})?\s*$', line)
            if ready:
                self.port = int(ready.group(1))
                self._ready.set()
        self._ready.set()  # it ended; the port tells whether it was ready before

    def log_text(self):
        return "".join(self.log)

    # Requests -------------------------------------------------------------------------------------------------

    def request(self, method, path, body=None, headers=None, seconds_max=120):
        """One request on a connection of its own; a body that is not bytes is sent as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=time_limit(seconds_max))
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body, headers=None):
        return self.request("POST", path, body, headers)

    def embed(self, inputs, **fields):
        """(S × H) embeddings of an embeddings request that must succeed."""
        reply = self.post("/v1/embeddings", {"input": inputs, **fields})
        if reply.status != 200:
            raise AssertionError(repr(reply))
        return reply.embeddings()

    def rerank(self, query, documents, **fields):
        """Relevance by document index, of a rerank request that must succeed."""
        reply = self.post("/v1/rerank", {"query": query, "documents": documents, **fields})
        if reply.status != 200:
            raise AssertionError(repr(reply))
        return reply.scores()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=time_limit(60))

    def exchange(self, request_bytes):
        """Sends raw bytes on a fresh connection; the answer, or None if there is none."""
        with self.connect() as connection:
            try:
                connection.sendall(request_bytes)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may refuse early; its answer is there all the same
            return read_answer(connection)

    def in_background(self, path, body, headers=None):
        """Sends a request from a thread; `.result()` waits for its Reply."""
        return Background(lambda: self.post(path, body, headers))

    # Metrics --------------------------------------------------------------------------------------------------

    def metrics(self):
        """{'name{label="value"}': number} as exposed now."""
        text = self.get("/metrics").body.decode()
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def metric(self, name):
        return self.metrics()[name]

    def waiting(self):
        """Inputs that wait in the queue, not yet taken into a batch."""
        return self.metric("espalier_queue_tickets")

    # The end --------------------------------------------------------------------------------------------------

    def send_signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self, seconds_max=60):
        """Waits for the end; the exit code."""
        code = self.process.wait(time_limit(seconds_max))
        self._reader.join()
        return code

    def stop(self, number=signal.SIGTERM):
        """Asks it to end and fails unless it does so with exit code 0."""
        if self.process.poll() is not None:
            raise AssertionError(f"the server had ended with {self.process.returncode}:\n{self.log_text()}")
        self.send_signal(number)
        code = self.wait()
        if code != 0:
            raise AssertionError(f"exit code {code} after signal {number}:\n{self.log_text()}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()


class Background:
    """A call on a thread of its own."""

    def __init__(self, call):
        self._value = None
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call):
        try:
            self._value = call()
        except Exception as error:  # handed to whoever asks for the result
            self._error = error

    def running(self):
        return self._thread.is_alive()

    def result(self, seconds_max=120):
        self._thread.join(time_limit(seconds_max))
        if self._thread.is_alive():
            raise AssertionError("a background request was not answered in time")
        if self._error is not None:
            raise self._error
        return self._value


class EspalierTest(unittest.TestCase):
    """Shows the servers' stderr when a test fails, and kills what a test left running."""

    _servers = []

    @classmethod
    def start(cls, *options, **settings):
        """A server that is killed after the tests of the class, if nobody has stopped it before."""
        server = Server(*options, **settings)
        cls._servers = cls._servers + [server]
        cls.addClassCleanup(server.kill)
        return server

    def run(self, result=None):
        result = result or self.defaultTestResult()
        running = [server for server in self._servers if server.process.poll() is None]
        started_before = len(self._servers)
        failures = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > failures:
            for server in running + self._servers[started_before:]:
                print(f"--- stderr of the server on port {server.port}:\n{server.log_text()}---", file=sys.stderr)
        return result

    def assert_error(self, reply, status, param=None, code=None, message="."):
        """The API's error shape; `message` is a regular expression."""
        self.assertIsNotNone(reply, "the connection was closed without an answer")
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(reply.headers["content-type"].split(";")[0], "application/json")
        body = reply.json()
        error = body["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual(body["detail"], error["message"])
        self.assertEqual(body["message"], error["message"])
        self.assertTrue(error["message"])
        self.assertTrue(error["type"])
        self.assertEqual(error["param"], param, reply)
        if code is not None:
            self.assertEqual(error["code"], code, reply)
        self.assertRegex(error["message"], message)


class ServerTest(EspalierTest):
    """One server for all tests of the class, which must survive them and end with exit code 0."""

    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.start(*cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
