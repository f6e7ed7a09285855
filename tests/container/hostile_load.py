"""Requests of the worst kinds for a server's memory, from many clients at once."""

import collections
import gzip
import json
import random
import socket
import threading
import time
import zlib

MEGABYTE = 1 << 20
ANSWER_SECONDS_MAX = 120


def json_bytes(**fields):
    return json.dumps(fields).encode()


def listed(entry, count, before=b'{"input":[', after=b"]}"):
    """JSON with `count` times `entry` in its list."""
    return before + b",".join([entry]) + (b"," + entry) * (count - 1) + after


class Attack:
    """One kind of request: what is sent, and how its answer is read."""

    model = None  # that the next ones name in their bodies

    def __init__(self, path, body, encoding=None, pack=None, chunked=False, slow_reader=False, sent_part=1.0):
        self.path = path
        if Attack.model:
            body = f'{{"model":"{Attack.model}",'.encode() + body[1:]
        body = pack(body) if pack else body
        self.chunked = chunked
        self.slow_reader = slow_reader
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
        if encoding:
            head += f"Content-Encoding: {encoding}\r\n"
        head += "Transfer-Encoding: chunked\r\n\r\n" if chunked else f"Content-Length: {len(body)}\r\n\r\n"
        self.head = head.encode()
        self.body = body if sent_part == 1.0 else memoryview(body)[:int(sent_part * len(body))]


def words(count, seed=1):
    """Text that takes about a token for each of its words, all different."""
    draw = random.Random(seed)
    return " ".join(f"{draw.randrange(1 << 20):x}" for _ in range(count))


def attacks(body_bytes=32 * MEGABYTE, inputs=2048, model=None):
    """By name. Bodies come close to `body_bytes`, those with inputs that are computed close to `inputs`."""
    Attack.model = model
    near = body_bytes - 1024
    embeddings, rerank = "/v1/embeddings", "/v1/rerank"
    tokens_in_all = min(2_000_000, near // 4)
    zeros = json.dumps({"input": "a " * (near // 2)}).encode()
    long_document = json.dumps(words(near // inputs // 8)).encode()
    few_words = "word " * 1000
    return {
        # What the parser's tree costs.
        "numbers": Attack(embeddings, listed(b"1", near // 2)),
        "numbers just few enough": Attack(embeddings, listed(b"1", min(near // 2, 2_090_000))),
        "lists of numbers": Attack(embeddings, listed(b"[" + b"1," * (tokens_in_all // inputs - 1) + b"1]", inputs)),
        "tiny lists": Attack(embeddings, listed(b"[1]", min(near // 4, 1_040_000))),
        "tiny strings": Attack(embeddings, listed(b'"a"', min(near // 4, 2_090_000))),
        "tiny objects": Attack(rerank, listed(b'{"text":""}', min(near // 12, 1_040_000), b'{"query":"a","documents":[')),
        "nested lists": Attack(embeddings, listed(b"[" * 30 + b"]" * 30, min(near // 61, 69_000))),
        "nested objects": Attack(embeddings, listed(b'{"input":' * 20 + b"1" + b"}" * 20,
                                                    min(near // 202, 95_000))),
        "ignored lists": Attack(embeddings, listed(b"[[1]]", near // 6, b'{"input":"a","whatever":[')),
        "escapes": Attack(embeddings, b'{"input":"' + b"\\u0001" * (near // 6) + b'"}'),
        "chunks": Attack(embeddings, listed(b"1", near // 2), chunked=True),
        # What tokenizing costs.
        "one long text": Attack(embeddings, b'{"input":"' + b"a" * near + b'"}'),
        "many words": Attack(embeddings, json_bytes(input=words(near // 8), truncate=True)),
        "accents": Attack(embeddings, b'{"input":"' + ("e" + "\u0301" * 30).encode() * (near // 61) + b'"}'),
        "long documents": Attack(rerank, listed(long_document, inputs // 2, b'{"query":"a","return_documents":true,"documents":[')),
        "a long query": Attack(rerank, b'{"query":"' + b"a b " * (near // 4) + b'","documents":["a"]}'),
        "tokens shown": Attack("/tokenize", json_bytes(inputs="a " * 500_000)),
        "ids decoded": Attack("/decode", listed(b"[" + b"100," * 999 + b"100]", min(near // 4000, 2000), b'{"ids":[')),
        # What is unpacked.
        "gzip": Attack(embeddings, zeros, pack=gzip.compress, encoding="gzip"),
        "deflate": Attack(embeddings, zeros, pack=zlib.compress, encoding="deflate"),
        # What answers cost.
        "many embeddings": Attack(embeddings, json_bytes(input=["a"] * inputs)),
        "many embeddings, read slowly": Attack(embeddings, json_bytes(input=["a"] * inputs), slow_reader=True),
        "every token": Attack("/embed_all", json_bytes(inputs=[few_words] * 8, truncate=True)),
        "every token, read slowly": Attack("/embed_all", json_bytes(inputs=[few_words] * 8, truncate=True),
                                           slow_reader=True),
        "tries": Attack(embeddings, json_bytes(input=[few_words] * (inputs // 2), truncate=True, return_trie=True)),
        # Who never ends.
        "half a body": Attack(embeddings, listed(b"1", near // 2), sent_part=0.6),
    }


class Storm:
    """Clients that attack `port` again and again, each kind in turn, until stop()."""

    def __init__(self, port, kinds, clients):
        self.port = port
        self.kinds = list(kinds.items())
        self.outcomes = collections.Counter()  # (kind, status, the error's message)
        self.unreachable = 0
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=(number,), daemon=True)
                         for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._ends.set()
        for thread in self._threads:
            thread.join(ANSWER_SECONDS_MAX)

    def statuses(self):
        counts = collections.Counter()
        for (_, status, _), count in self.outcomes.items():
            counts[status] += count
        return counts

    def _client(self, number):
        turn = number
        while not self._ends.is_set():
            name, attack = self.kinds[turn % len(self.kinds)]
            turn += 1
            try:
                status, message = self._attack(attack)
            except ConnectionRefusedError:
                self.unreachable += 1
                time.sleep(0.1)
                continue
            except OSError as error:
                status, message = 0, type(error).__name__
            with self._lock:
                self.outcomes[name, status, message] += 1

    def _attack(self, attack):
        with socket.socket() as connection:
            connection.settimeout(ANSWER_SECONDS_MAX)
            connection.connect(("127.0.0.1", self.port))
            try:
                self._send(connection, attack)
            except OSError:
                pass  # refused on the way; the answer is there all the same
            if len(attack.body) < 100 * 1024 and attack.slow_reader:
                return self._read_slowly(connection)
            return self._read(connection)

    def _send(self, connection, attack):
        connection.sendall(attack.head)
        if not attack.chunked:
            connection.sendall(attack.body)
            return
        size = 64 * 1024
        for begin in range(0, len(attack.body), size):
            part = attack.body[begin:begin + size]
            connection.sendall(b"%x\r\n" % len(part) + part + b"\r\n")
        connection.sendall(b"0\r\n\r\n")

    def _read(self, connection):
        answer = bytearray()
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        connection.settimeout(0.5)
        while time.monotonic() < deadline:
            try:
                part = connection.recv(1 << 20)
            except TimeoutError:
                if self._ends.is_set():
                    return 0, "abandoned"
                continue
            if not part:
                break
            answer += part
            if len(answer) > 64 * 1024:  # enough to tell
                answer = answer[:64 * 1024]
        return outcome_of(bytes(answer))

    def _read_slowly(self, connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        first = b""
        for _ in range(20):
            if self._ends.is_set():
                break
            part = connection.recv(4096)
            first = first or part
            if not part:
                break
            time.sleep(0.5)
        return outcome_of(first)


def outcome_of(answer):
    if not answer:
        return 0, "closed without an answer"
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    if status == 200 or not body:  # whoever reads slowly has the head alone
        return status, "-"
    try:
        error = json.loads(body)
        message = error["error"]["message"] if isinstance(error.get("error"), dict) else error.get("error", "")
    except (ValueError, KeyError):
        message = body[:100].decode(errors="replace")
    return status, message[:110]
