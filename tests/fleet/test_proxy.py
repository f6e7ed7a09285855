"""The proxy itself: what hostile clients can do to it and through it, how often it sends a request, and its own reloads and end."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

from fleet import Fleet, Proxy, server_at, time_limit, wait_until
from espalier_server import EspalierTest, Server, free_port, random_inputs, read_answer

EMBEDDINGS = "/v1/embeddings"
RERANK = "/v1/rerank"
SALT = b'{"input": "salt"}'


def request(headers="", body=SALT, version="1.1", line=f"POST {EMBEDDINGS}"):
    return (f"{line} HTTP/{version}\r\nHost: x\r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def up(proxy):
    """The replicas that it has found to be ready."""
    with contextlib.suppress(OSError):
        return proxy.replicas_up()
    return set()


class Listener:
    """A replica of which a test says what it does: `answer(connection, request bytes)` is called for all but probes."""

    def __init__(self, answer):
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.requests = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                piece = connection.recv(65536)
                if not piece:
                    return
                data += piece
            if data.startswith(b"GET /readyz"):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            self.requests.append(data)
            self._answer(connection, data)

    def close(self):
        self._socket.close()


class AttemptsTest(EspalierTest):
    """How many replicas see a request."""

    def listeners(self, answer, settings=None):
        """Six replicas that do `answer`, behind a proxy."""
        self.replicas = [Listener(answer) for _ in range(6)]
        for replica in self.replicas:
            self.addCleanup(replica.close)
        addresses = {f"ESPALIER_REPLICA_{number}": f"127.0.0.1:{replica.port}" for number, replica in enumerate(self.replicas, 1)}
        self.proxy = Proxy({**addresses, **(settings or {})})
        self.addCleanup(self.proxy.close)
        wait_until(lambda: len(up(self.proxy)) == 6, "replicas up")

    def attempts(self):
        return sum(len(replica.requests) for replica in self.replicas)

    def test_a_request_that_kills_its_replica_kills_four_at_most(self):
        self.listeners(lambda connection, data: None)
        reply = self.proxy.post(EMBEDDINGS, {"input": "salt"})
        self.assert_error(reply, 502, code="replica_failed")
        self.assertEqual(self.attempts(), 4)
        self.assertEqual(self.proxy.logged(reply.headers["x-request-id"])["retries"], "+3")
        large = self.proxy.exchange(request(body=json.dumps({"input": ["x" * 1_500_000]}).encode()))
        self.assertIn(large and large.status, (502, None))  # None: closed while it was sent
        self.assertEqual(self.attempts(), 5)

    def test_an_answer_that_has_begun_is_not_asked_for_again(self):
        self.listeners(lambda connection, data: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf"))
        with self.assertRaises(http.client.IncompleteRead):
            self.proxy.post(EMBEDDINGS, {"input": "salt"})
        self.assertEqual(self.attempts(), 1)

    def test_a_replica_that_takes_too_long_is_not_repeated(self):
        self.listeners(lambda connection, data: time.sleep(5), {"ESPALIER_PROXY_TIMEOUT": "1s"})
        self.assert_error(self.proxy.post(EMBEDDINGS, {"input": "salt"}), 504, code="replica_timeout")
        self.assertEqual(self.attempts(), 1)

    def test_a_request_has_three_buffers_at_most(self):
        """64 at once that wait for their replicas: small, as large as can be repeated, and larger ones that their replicas do not read."""
        for size, bytes_max in ((1_000, 1_400_000), (950_000, 3_200_000), (5_000_000, 3_200_000)):
            self.listeners(lambda connection, data: time.sleep(60))
            before = self.proxy.peak_bytes()
            body = json.dumps({"query": "salt", "documents": ["x" * size]}).encode()

            def send(connection):
                with contextlib.suppress(OSError):  # of the large ones the rest is not taken
                    connection.sendall(request(line=f"POST {RERANK}", body=body))
            with contextlib.ExitStack() as held:
                for _ in range(64):
                    threading.Thread(target=send, args=(held.enter_context(self.proxy.connect()),), daemon=True).start()
                wait_until(lambda: self.attempts() >= 64, "all at replicas")
                time.sleep(1)
                grown = (self.proxy.peak_bytes() - before) / 64
            print(f"{grown / 1e3:.0f} kB for each of 64 requests of {size} bytes at once; {before / 1e6:.0f} MB before", flush=True)
            self.assertLess(grown, bytes_max)

    def test_replicas_see_what_the_proxy_says_of_the_client_and_nothing_else(self):
        self.listeners(lambda connection, data: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
        forged = "X-Forwarded-For: 192.0.2.1\r\nx-forwarded-FOR: 192.0.2.2\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Proto: ftp\r\n"
        for headers in (forged, "X-Request-Id: a\r\n b\r\n", "X-Request-Id: a\r\nX-Request-Id: b c\r\n",
                        "X-Request-Id: b c\r\nX-Request-Id: a\r\n", "Connection: x-forwarded-for, x-request-id\r\n"):
            self.assertEqual(self.proxy.exchange(request(headers)).status, 200)
        for data in (data for replica in self.replicas for data in replica.requests):
            head = data.split(b"\r\n\r\n", 1)[0].lower().split(b"\r\n")[1:]
            values = {name: [line.split(b": ", 1)[1] for line in head if line.startswith(name + b":")]
                      for name in (b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id")}
            self.assertEqual((values[b"x-forwarded-for"], values[b"x-forwarded-proto"]), ([b"127.0.0.1"], [b"http"]))
            self.assertEqual(len(values[b"x-request-id"]), 1)
            self.assertRegex(values[b"x-request-id"][0].decode(), "^(a|[0-9a-f-]{36})$")


class ClientsTest(EspalierTest):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(cls, 2, options=("--threads", "1", "--max-batch-tokens", "2048"))
        cls.proxy = cls.fleet.proxy

    def test_clients_cannot_take_the_connections_of_probes(self):
        proxy = self.fleet.add_proxy(self.addCleanup, {"ESPALIER_PROXY_CONNECTIONS": "20"})
        with contextlib.ExitStack() as held:
            for _ in range(30):
                held.enter_context(proxy.connect()).sendall(b"GET / HTTP/1.1\r\n")
            wait_until(lambda: proxy.statistics()["api", "FRONTEND"]["scur"] == "20", "all connections taken")
            self.assertEqual(server_at(proxy.stats_port).get("/livez").status, 200)
            self.assertEqual(server_at(proxy.stats_port).get("/metrics").status, 200)
        self.assertEqual(proxy.post(EMBEDDINGS, {"input": "salt"}).status, 200)

    def test_one_address_may_be_kept_from_taking_all_connections(self):
        proxy = self.fleet.add_proxy(self.addCleanup, {"ESPALIER_PROXY_CONNECTIONS_PER_CLIENT": "5"})

        def answer():
            try:
                return proxy.exchange(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
            except ConnectionError:
                return None
        with contextlib.ExitStack() as held:

            def refused():  # one more at a time: of several at once, some below the limit are reset, too
                with contextlib.suppress(ConnectionError):
                    held.enter_context(proxy.connect())
                return answer() is None
            wait_until(refused, "too many connections")
            wait_until(lambda: proxy.statistics()["api", "FRONTEND"]["scur"] == "5", "five connections")
            with socket.create_connection(("127.0.0.1", proxy.port), source_address=("127.0.0.5", 0)) as other:
                other.sendall(request())
                self.assertEqual(read_answer(other).status, 200)
        wait_until(answer, "an answer again")

    def test_a_connection_has_one_request_at_a_time(self):
        """HTTP/2 would have a hundred, each with a buffer: memory must be bounded by connections."""
        self.assertEqual(self.proxy.exchange(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])).status, 400)

    def test_https(self):
        with tempfile.TemporaryDirectory() as folder:
            pem = os.path.join(folder, "espalier.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                            "/CN=localhost", "-keyout", pem, "-out", pem + ".crt"], check=True, capture_output=True)
            with open(pem, "a", encoding="ascii") as file, open(pem + ".crt", encoding="ascii") as certificate:
                file.write(certificate.read())
            port = free_port()
            self.fleet.add_proxy(self.addCleanup, substitutions=[(r"#bind \*:8443 ssl crt \S+", f"bind 127.0.0.1:{port} ssl crt {pem}")])
            trusting = ssl.create_default_context(cafile=pem + ".crt")
            trusting.check_hostname = False
            trusting.set_alpn_protocols(["h2", "http/1.1"])
            with trusting.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=time_limit(60))) as connection:
                self.assertEqual(connection.selected_alpn_protocol(), "http/1.1")
                connection.sendall(request())
                self.assertEqual(read_answer(connection).status, 200)

    def test_a_client_that_goes_away_frees_its_replica(self):
        def waiting():
            return sum(replica.metric("espalier_queue_tickets") for replica in self.fleet.replicas)
        body = json.dumps({"input": random_inputs(60, 2000, 1)}).encode()
        with self.proxy.connect() as leaving:
            leaving.sendall(request(body=body))
            wait_until(lambda: waiting() > 20, "a busy replica")
        wait_until(lambda: waiting() == 0, "an idle replica", 5)
        self.assertIn("status=499", "".join(replica.server.log_text() for replica in self.fleet.replicas))

    def test_old_and_rare_forms_of_requests(self):
        self.assertEqual(self.proxy.exchange(request(version="1.0")).status, 200)
        self.assertEqual(self.proxy.exchange(request("Connection: Upgrade\r\nUpgrade: websocket\r\n")).status, 200)
        self.assertEqual(self.proxy.exchange(request(line="TRACE /")).status, 405)
        self.assertEqual(self.proxy.exchange(b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n").status, 400)
        # Bodies that are asked for, small and larger than the buffer.
        for body in (SALT, json.dumps({"input": ["x" * 1_500_000]}).encode()):
            with self.proxy.connect() as asking:
                head, rest = request("Expect: 100-continue\r\n", body).split(b"\r\n\r\n", 1)
                asking.sendall(head + b"\r\n\r\n")
                self.assertEqual(asking.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
                asking.sendall(rest)
                self.assertEqual(read_answer(asking).status, 200)
        with self.proxy.connect() as pipelining:
            pipelining.sendall(request() * 3)
            with pipelining.makefile("rb") as answers:
                for _ in range(3):
                    self.assertIn(b" 200 ", answers.readline())
                    headers = http.client.parse_headers(answers)
                    answers.read(int(headers["content-length"]))
        # Two lengths: the chunks count, and what follows them is no second request.
        smuggled = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        with self.proxy.connect() as smuggling:
            smuggling.sendall(smuggled + b"11\r\n" + SALT + b"\r\n0\r\n\r\n" + request())
            smuggling.settimeout(time_limit(5))
            answers = b""
            while piece := smuggling.recv(65536):
                answers += piece
        self.assertEqual(answers.count(b"HTTP/1.1 "), 1)

    def test_no_spelling_of_a_path_reaches_what_belongs_to_one_replica(self):
        # Of replicas without an admin port, which have it at the port of the API.
        single = Server()
        self.addCleanup(single.kill)
        proxy = Proxy({"ESPALIER_REPLICA_1": f"127.0.0.1:{single.port}"})
        self.addCleanup(proxy.close)
        wait_until(lambda: up(proxy), "a replica")
        self.assertEqual((single.get("/metrics").status, proxy.get("/v1/models").status), (200, 200))
        for path in ("/metrics", "/metrics?x", "//metrics", "/metrics/", "/%6detrics", "/./metrics", "/x/../metrics", "/METRICS", "http://x/metrics",
                     "http://x//metrics", "/metrics;x", "/metrics%20", "/debug", "/debug/timeline", "/%64ebug/timeline", "//debug/timeline",
                     "/debug//timeline", "/debug%2ftimeline"):
            with self.subTest(path):
                self.assertEqual(proxy.exchange(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).status, 404)

    def test_no_body_is_answered_otherwise_than_by_a_replica(self):
        """Whatever the proxy reads in it, it only matters where it goes."""
        texts = ["salt " * 200, 'quoted "query": "x" \\']
        values = ('""', "1", "-1.5e300", "1e999", "9" * 400, "true", "null", "[]", '["a"]', '{"query": "x"}', "{}", '"\\ud800"', '"\\\\\\u4e2d"',
                  '"\\u0000"', '"\x01"', '"' + "x" * 70_000 + '"', '"' + "\\u0041" * 100_000 + '"', "[" * 200 + "]" * 200, '{"a":' * 30 + "1" + "}" * 30,
                  '"\\', "nan", '"salt", "query": "pepper"', '"salt", "\\u0071uery": "pepper"')
        direct = self.fleet.replicas[0].server
        for field in ("query", "instruction", "model"):
            for value in values:
                body = (json.dumps({"documents": texts, "query": "salt"})[:-1] + f', "{field}": {value}}}').encode()
                with self.subTest(f"{field} {value[:30]}"):
                    expected = direct.request("POST", RERANK, body)
                    self.assertEqual(self.proxy.request("POST", RERANK, body).status, expected.status)


class ReloadTest(EspalierTest):
    """With a master, as Debian's service and the container have it."""

    def test_reloads_take_up_edits_and_lose_no_request(self):
        fleet = Fleet(self, 3, master=True)
        proxy = fleet.proxy
        added = {"ESPALIER_REPLICA_4": fleet.replicas[0].address, "ESPALIER_CHECK_PORT_4": fleet.replicas[0].admin_port}
        edits = [("^    #setenv ESPALIER_REPLICA_4 .*$", "".join(f"    setenv {name} {value}\n" for name, value in added.items())
                  + "    unsetenv ESPALIER_REPLICA_3"),
                 ("ESPALIER_PROXY_CONNECTIONS-1000", "ESPALIER_PROXY_CONNECTIONS-123")]
        failures, answered, stop = [], [0], threading.Event()

        def ask(keeps_alive):
            connection = None
            while not stop.is_set():
                if connection is None or not keeps_alive:
                    if connection is not None:
                        connection.close()
                    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=time_limit(60))
                try:
                    connection.request("POST", RERANK, b'{"query": "salt", "documents": ["a mineral", "a spice"]}',
                                       {"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    answer.read()
                    answered[0] += 1
                    if answer.status != 200:
                        failures.append(answer.status)
                except (OSError, http.client.HTTPException) as error:
                    failures.append(repr(error))
                    connection.close()
                    connection = None
            connection.close()
        clients = [threading.Thread(target=ask, args=(number % 2 == 0,)) for number in range(6)]

        def stop_clients():
            stop.set()
            for client in clients:
                client.join()
        self.addCleanup(stop_clients)
        for client in clients:
            client.start()
        time.sleep(1)  # a master that has only just begun takes no signals
        for substitutions in ((), (), edits):
            proxy.write_configuration(substitutions)
            loaded = sum("Loading success" in line for line in proxy.log)
            proxy.send_signal(signal.SIGUSR2)
            wait_until(lambda count=loaded: sum("Loading success" in line for line in proxy.log) > count, "a reload")
            time.sleep(1)
        stop_clients()
        self.assertEqual(failures, [])
        self.assertGreater(answered[0], 100)
        self.assertEqual(set(proxy.requests_taken()), {"replica1", "replica2", "replica4"})
        self.assertEqual(proxy.statistics()["api", "FRONTEND"]["slim"], "123")

    def test_sigusr1_ends_it_when_all_is_answered(self):
        fleet = Fleet(self, 1, options=("--threads", "1", "--max-batch-tokens", "2048"), master=True)
        idle = fleet.proxy.connect()
        self.addCleanup(idle.close)
        idle.sendall(request())
        self.assertEqual(read_answer(idle).status, 200)
        waiting = fleet.proxy.in_background(EMBEDDINGS, {"input": random_inputs(20, 2000, 3)})
        wait_until(lambda: fleet.replicas[0].metric("espalier_queue_tickets") > 0, "a request under way")
        fleet.proxy.send_signal(signal.SIGUSR1)
        with self.assertRaises(ConnectionRefusedError):
            for _ in range(200):
                fleet.proxy.connect().close()
                time.sleep(0.02)
        self.assertEqual(waiting.result().status, 200)
        idle.sendall(request())
        last = read_answer(idle)
        self.assertEqual((last.status, last.headers["connection"]), (200, "close"))
        self.assertEqual(fleet.proxy.process.wait(time_limit(30)), 0)


if __name__ == "__main__":
    unittest.main()
