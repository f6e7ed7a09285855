"""Clients of a fleet, and what their requests must be answered: what a lone server answers to the same."""

import http.client
import json
import os
import random
import threading
import time

import numpy as np

from fleet import time_limit
from espalier_server import MODEL, Reply

JSON = {"Content-Type": "application/json"}
# Two replicas' f32 results of one text: batches differ, so blocks of the products may, too.
TOLERANCE = 1e-4


def wordnet_pairs():
    """(query, passage) of the bundled model's evaluation: a word's definition asks for the word's other definitions."""
    with open(os.path.join(MODEL, "eval_wordnet.jsonl"), encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    return [pair["query"] for pair in pairs], [pair["passage"] for pair in pairs]


class Question:
    """A request, and the numbers that its answer must hold."""

    def __init__(self, kind, path, fields):
        self.kind = kind
        self.path = path
        self.body = json.dumps(fields).encode()
        self.expected = None

    @staticmethod
    def numbers(reply):
        body = reply.json()
        if isinstance(body, list):  # TEI's: scores by rank, or vectors
            return np.array([[entry["index"], entry["score"]] for entry in sorted(body, key=lambda entry: entry["index"])]
                            if isinstance(body[0], dict) else body)
        return reply.scores() if "results" in body else reply.embeddings()

    def wrong(self, reply):
        """What is wrong with the answer; None if nothing is."""
        if reply.status != 200:
            return f"status {reply.status}: {reply.body[:200]!r}"
        numbers = self.numbers(reply)
        if numbers.shape != self.expected.shape:
            return f"{numbers.shape} numbers instead of {self.expected.shape}"
        if not np.allclose(numbers, self.expected, rtol=0, atol=TOLERANCE):
            return f"numbers differ by up to {np.abs(numbers - self.expected).max()}"
        return None


def mixed_questions(lone, seed=7):
    """Rerank, embeddings and long inputs, in the forms of several APIs, and bodies of up to 900 kB; answered by `lone`."""
    queries, passages = wordnet_pairs()
    chance = random.Random(seed)
    questions = []
    for number in range(24):
        documents = chance.sample(passages, 8)
        questions.append(Question("rerank", "/v1/rerank", {"query": queries[number], "documents": documents}))
        questions.append(Question("rerank", "/rerank", {"query": queries[number], "texts": documents[:4]}))
        questions.append(Question("embed", "/v1/embeddings", {"input": chance.sample(passages, 6)}))
    for number in range(12):
        questions.append(Question("embed", "/v1/embeddings",
                                  {"input": queries[number:number + 4], "instruction": f"find what is said of {number}"}))
        questions.append(Question("embed", "/embed", {"inputs": queries[number:number + 3], "prompt_name": "query"}))
    for number in range(6):
        words = " ".join(chance.sample(passages, 60))
        questions.append(Question("long", "/v1/embeddings", {"input": [words[:6000], words[3000:9000]]}))
        questions.append(Question("long", "/v1/rerank", {"query": queries[number], "documents": [words[:5000], words[:2000]]}))
    for number in range(6):
        # Cut at 2 048 tokens: it is the body that is large, not what there is to compute.
        text = (" ".join(chance.sample(passages, 500)) * 30)[:150_000 * (number + 1)]
        questions.append(Question("large", "/v1/rerank", {"query": queries[number], "documents": [text]}))
    _answer(questions, lone)
    return questions


def huge_questions(lone):
    """Bodies of 2 to 4 MB, more than the proxy's buffer."""
    queries, passages = wordnet_pairs()
    text = " ".join(passages)
    questions = [Question("huge", "/v1/rerank", {"query": queries[number], "documents": [(text * 60)[:size], passages[number]]})
                 for number, size in enumerate((2_000_000, 3_000_000, 4_000_000))]
    _answer(questions, lone)
    return questions


def _answer(questions, lone):
    for question in questions:
        question.expected = question.numbers(lone.request("POST", question.path, question.body))


class Client(threading.Thread):
    """Asks one question after the other, each compared with what it must be. `keeps_alive`: on one connection."""

    def __init__(self, port, questions, keeps_alive, seed, pause=None):
        super().__init__(daemon=True)
        self._port = port
        self._questions = questions
        self._keeps_alive = keeps_alive
        self._chance = random.Random(seed)
        self._pause = pause  # held by whoever wants this client to be silent
        self._stopping = threading.Event()
        self.failures = []
        self.seconds = []  # that answers took
        self.start()

    def run(self):
        connection = None
        while not self._stopping.is_set():
            if connection is None or not self._keeps_alive:
                if connection is not None:
                    connection.close()
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=time_limit(120))
            question = self._chance.choice(self._questions)
            if self._pause is None:
                failed = self._ask(connection, question)
            else:
                with self._pause:
                    failed = self._ask(connection, question)
                self._stopping.wait(0.05)
            if failed:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _ask(self, connection, question):
        began = time.monotonic()
        try:
            connection.request("POST", question.path, question.body, JSON)
            answer = connection.getresponse()
            wrong = question.wrong(Reply(answer.status, answer.getheaders(), answer.read()))
        except (OSError, http.client.HTTPException, ValueError) as error:
            wrong = repr(error)
        self.seconds.append(time.monotonic() - began)
        if wrong is not None:
            self.failures.append(f"{time.strftime('%H:%M:%S')} {question.kind} {question.path}, {len(question.body)} bytes, "
                                 f"after {self.seconds[-1]:.3f} s: {wrong}")
        return wrong is not None

    def stop(self):
        self._stopping.set()

    def finish(self):
        self._stopping.set()
        self.join(time_limit(180))
        assert not self.is_alive(), "a client waits for its answer for ever"
