"""The log: one line a request, text or JSON, that nothing a client sends can break, and that never holds up the server."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from espalier_server import (BINARY, MODEL, EspalierTest, ServerTest, environment, run_espalier, time_limit,
                             wait_until)

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SECRET = "a text that is nobody's business"
FIELD = re.compile(r' (\w+)=("(?:[^"\\]|\\.)*"|[^ "\n]+)')


def logged(server, request_id):
    """The line of a request, once it is there."""
    return wait_until(lambda: next((line for line in server.log if request_id in line), None), f"{request_id} logged")


class TextTest(ServerTest):
    def test_a_request_is_a_line(self):
        reply = self.server.post("/v1/embeddings", {"input": [SECRET, SECRET]},
                                 {"X-Request-Id": "text-1", "traceparent": f"00-{TRACE}-{SPAN}-01"})
        self.assertEqual(reply.headers["x-request-id"], "text-1")
        line = logged(self.server, "text-1")
        self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d info request ")
        fields = dict(FIELD.findall(line))
        expected = {"method": "POST", "route": "/v1/embeddings", "status": "200", "client": "127.0.0.1",
                    "trace_id": TRACE, "span_id": SPAN, "response_bytes": str(len(reply.body))}
        self.assertEqual({name: fields[name] for name in expected}, expected)
        self.assertGreater(float(fields["duration_ms"]), 0)
        self.assertEqual(sum("text-1" in line for line in self.server.log), 1)
        # The same text twice is computed once.
        tokens = int(reply.headers["x-espalier-tokens"])
        self.assertEqual([int(fields[name]) for name in ("inputs", "tokens", "rows")], [2, tokens, tokens // 2])
        stages = sum(float(fields[name]) for name in ("tokenize_ms", "queue_ms", "compute_ms"))
        self.assertTrue(0 < stages < float(fields["duration_ms"]), line)

    def test_models_below_a_route_are_named(self):
        self.server.request("GET", "/v1/models/espalier-mini", headers={"X-Request-Id": "model-1"})
        self.assertIn(" route=/v1/models/* path=/v1/models/espalier-mini status=200 ", logged(self.server, "model-1"))

    def test_texts_and_paths_of_nothing_are_not_logged(self):
        self.server.embed(SECRET)
        self.server.rerank(SECRET, [SECRET, SECRET], instruction=SECRET)
        self.server.post("/v1/rerank", {"query": SECRET})
        self.server.post("/v1/embeddings", SECRET.encode())
        self.server.request("GET", "/secret/nowhere", headers={"X-Request-Id": "nowhere-1", "Authorization": SECRET})
        self.assertIn(" route=other status=404 ", logged(self.server, "nowhere-1"))
        self.assertNotIn("nobody's", self.server.log_text())
        self.assertNotIn("secret", self.server.log_text())

    def test_probes_are_silent(self):
        for path in ("/health", "/metrics"):
            self.server.request("GET", path, headers={"X-Request-Id": "probe-1"})
        self.server.request("GET", "/v1/models", headers={"X-Request-Id": "after-1"})
        logged(self.server, "after-1")
        self.assertNotIn("probe-1", self.server.log_text())

    def test_invalid_traces_are_ignored(self):
        for number, value in enumerate((f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01",
                                        f"00-{TRACE.upper()}-{SPAN}-01", "~" * 55, "00-", "x" * 5000)):
            self.server.request("GET", "/v1/models", headers={"X-Request-Id": f"trace-{number}", "traceparent": value})
            self.assertNotIn("trace_id=", logged(self.server, f"trace-{number}"))


class JsonTest(EspalierTest):
    HOSTILE = (b"GET /v1/models\xff\xfe\x80%0a HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\"b\r\n\r\n",
               b"GET /\x1b[2J HTTP/1.1\r\nHost: x\r\n\r\n",
               b"G\"E\\T /v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
               b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Request-Id: \xc3\x28\r\ntraceparent: \x01\r\n\r\n",
               b"\x00\x01\x02\r\n\r\n", b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n\xff\x00\"")

    def test_every_line_is_an_object_whatever_comes(self):
        server = self.start("--log-format", "json", "--log-level", "debug")
        for request in self.HOSTILE:
            server.exchange(request)
        server.request("GET", "/health", headers={"X-Request-Id": "probe-1"})
        reply = server.post("/v1/embeddings", {"input": SECRET},
                            {"X-Request-Id": "json-1", "traceparent": f"00-{TRACE}-{SPAN}-00"})
        entry = json.loads(logged(server, "json-1"))
        self.assertRegex(entry.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertGreater(entry.pop("duration_ms"), 0)
        expected = {"level": "info", "message": "request", "request_id": "json-1", "method": "POST",
                    "route": "/v1/embeddings", "status": 200, "client": "127.0.0.1",
                    "request_bytes": len(json.dumps({"input": SECRET})), "response_bytes": len(reply.body),
                    "trace_id": TRACE, "span_id": SPAN}
        self.assertEqual({name: entry[name] for name in expected}, expected)
        self.assertEqual(json.loads(logged(server, "probe-1"))["level"], "debug")
        server.stop()
        entries = [json.loads(line) for line in server.log]
        self.assertTrue(all({"time", "level", "message"} <= set(entry) for entry in entries))
        self.assertTrue(any("is ready at" in entry["message"] for entry in entries))
        self.assertIn("goodbye", entries[-1]["message"])
        requests = [entry for entry in entries if entry["message"] == "request"]
        self.assertEqual(len(requests), len(self.HOSTILE) + 2)

    def test_a_failed_start_is_an_object_too(self):
        done = run_espalier("serve", "--log-format", "json", "--model", "/no/such\nfolder")
        self.assertEqual(done.returncode, 1)
        last = json.loads(done.stderr.splitlines()[-1])
        self.assertEqual(last["level"], "critical")
        self.assertIn("/no/such\nfolder is not a folder", last["message"])

    def test_the_other_commands_log_likewise(self):
        done = run_espalier("embed", "--log-format", "json", "--model", MODEL, stdin='{"text": "salt"}\n')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["embedding"]), 256)
        self.assertGreater(len([json.loads(line) for line in done.stderr.splitlines()]), 0)


class OffTest(ServerTest):
    options = ("--access-log", "off", "--log-level", "debug")

    def test_there_are_no_request_lines(self):
        self.server.embed("salt")
        self.server.get("/health")
        self.assertNotIn("request_id=", self.server.log_text())

    def test_other_values_are_refused(self):
        for option in ("--access-log=maybe", "--log-format=xml"):
            done = run_espalier("serve", option)
            self.assertEqual(done.returncode, 2)
            self.assertIn(option.split("=")[0], done.stderr)


class KeyTest(EspalierTest):
    def test_keys_are_not_logged(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            keys.write("shop the-secret-key\n")
            keys.flush()
            server = self.start("--api-key-file", keys.name)
            for key in ("the-secret-key", "not-the-secret-key"):
                server.post("/v1/embeddings", {"input": "salt"}, {"Authorization": f"Bearer {key}", "X-Request-Id": key[:3]})
                line = logged(server, f"request_id={key[:3]} ")
                self.assertEqual(" key=shop " in line, key == "the-secret-key")
            self.assertNotIn("secret-key", server.log_text())


class UnreadStderrTest(unittest.TestCase):
    """A server whose stderr is a pipe that nobody reads, or that has no reader any more."""

    def setUp(self):
        self.process = subprocess.Popen([BINARY, "serve", "--port", "0", "--model", MODEL], env=environment(),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(self.process.stderr.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        for line in self.process.stderr:
            ready = re.search(rb" is ready at http://\S*:(\d+)", line)
            if ready:
                self.port = int(ready.group(1))
                return
        self.fail("the server did not get ready")

    def ask(self, count):
        """Sends `count` requests on one connection, each with its answer; the seconds that it took."""
        request = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + b"x" * 100 + b"\r\n\r\n"
        started = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port), timeout=time_limit(30)) as connection:
            answers = connection.makefile("rb")
            for _ in range(count):
                connection.sendall(request)
                self.assertIn(b" 200 ", answers.readline())
                length = 0
                while (line := answers.readline().strip()):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.assertEqual(len(answers.read(length)), length)
        return time.monotonic() - started

    def assert_ends_well(self):
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(time_limit(20)), 0)

    def test_requests_are_answered_while_nobody_reads(self):
        count = 2000  # at 300 bytes, ten times what a pipe holds
        seconds = self.ask(count)
        self.assertLess(seconds, time_limit(10))
        os.set_blocking(self.process.stderr.fileno(), False)
        while self.process.stderr.read(1 << 16):
            pass
        self.ask(1)
        text = wait_until(self.process.stderr.read, "a line after the pause").decode()
        lost = int(re.search(r" warning (\d+) log lines were lost: stderr was not read\n", text).group(1))
        self.assertTrue(count // 2 < lost < count, lost)
        self.assertRegex(text.splitlines()[-1], r" info request request_id=x+ .* status=200 ")
        self.assert_ends_well()

    def test_the_end_does_not_wait_for_a_reader_either(self):
        self.ask(2000)
        self.assert_ends_well()

    def test_a_reader_that_has_gone_takes_nothing_with_it(self):
        self.process.stderr.close()
        self.ask(20)
        self.assert_ends_well()


class ClosedStderrTest(EspalierTest):
    def test_no_file_or_connection_takes_its_place(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = f"exec '{BINARY}' serve --port {port} --model '{MODEL}' <&- >&- 2>&-"
        process = subprocess.Popen(["sh", "-c", command], env=environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def status():
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=time_limit(10)) as connection:
                    connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
                    return connection.recv(12)
            except ConnectionRefusedError:
                return None

        wait_until(lambda: status() == b"HTTP/1.1 200", "the server gets ready")  # 503 while it loads
        for descriptor in range(3):
            self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/{descriptor}"), "/dev/null")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(time_limit(20)), 0)


if __name__ == "__main__":
    unittest.main()
