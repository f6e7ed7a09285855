"""`espalier health`: what it says of servers that are ready, loading, draining, silent, hostile or not there, and how
it finds them by the options of `serve`."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from espalier_server import (BINARY, MODEL, EspalierTest, environment, free_port, random_inputs, run_espalier,
                             time_limit, wait_until)
from test_tls import TestCa


def health(*arguments, env=None):
    return run_espalier("health", *arguments, env=env)


class HealthCase(EspalierTest):
    def assert_healthy(self, done, said="ready"):
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertRegex(done.stdout, rf"^{said}: https?://\S+\n$")

    def assert_unhealthy(self, done, said):
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        self.assertRegex(done.stderr, rf"^espalier: .*{said}.*\n")
        self.assertLessEqual(done.stderr.count("\n"), 2, done.stderr)


class ReadinessTest(HealthCase):
    def test_ready(self):
        server = self.start()
        self.assert_healthy(health("--port", server.port))
        self.assert_healthy(health("--port", server.port, "--live"), "live")
        for url in (f"http://127.0.0.1:{server.port}", f"http://localhost:{server.port}/",
                    f"http://127.0.0.1:{server.port}/health"):
            # The options of its own server do not matter then.
            self.assert_healthy(health("--url", url, env={"ESPALIER_PORT": "1", "ESPALIER_TLS_CERT": "x"}))
        self.assert_unhealthy(health("--url", f"http://127.0.0.1:{server.port}/nothing"), "answers 404")
        server.stop()

    def test_it_starts_fast(self):
        """It is run every few seconds, beside a server that computes: so it loads no model and starts no threads."""
        def seconds():
            start = time.monotonic()
            health("--port", free_port())
            return time.monotonic() - start
        self.assertLess(min(seconds() for _ in range(10)), time_limit(0.15))

    def test_loading(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        model = os.path.join(folder, "model")
        shutil.copytree(MODEL, model, ignore=shutil.ignore_patterns("training", "eval*", "golden.json"))
        os.remove(os.path.join(model, "tokenizer.json"))
        os.mkfifo(os.path.join(model, "tokenizer.json"))  # nobody writes it: loading stops there
        port = free_port()
        process = subprocess.Popen([BINARY, "serve", "--model", model, "--port", str(port)], env=environment(),
                                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until(lambda: health("--port", port, "--live").returncode == 0, "the server listens")
        self.assert_unhealthy(health("--port", port), "loading")
        self.assert_healthy(health("--port", port, "--live"), "live")

    def test_draining_is_seen_at_the_admin_port(self):
        admin = free_port()
        server = self.start("--admin-port", admin, "--drain-timeout", int(time_limit(60)))
        self.assert_healthy(health("--admin-port", admin))
        self.assert_unhealthy(health("--port", server.port), "answers 404.*ESPALIER_ADMIN_PORT")
        busy = server.in_background("/v1/embeddings", {"input": random_inputs(8, 2000, seed=5)})
        wait_until(lambda: server.process.poll() is None and health("--admin-port", admin).returncode == 0 and
                   self.queued(admin), "the request in the queue")
        server.send_signal()
        draining = wait_until(lambda: (done := health("--admin-port", admin)).returncode and done, "the drain")
        self.assert_unhealthy(draining, "draining")
        self.assert_healthy(health("--admin-port", admin, "--live"), "live")
        self.assertTrue(busy.running(), "the request was done before the drain was seen")
        self.assertEqual(busy.result().status, 200)
        self.assertEqual(server.wait(), 0)

    @staticmethod
    def queued(admin):
        with socket.create_connection(("127.0.0.1", admin)) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: a\r\n\r\n")
            text = b"".join(iter(lambda: connection.recv(65536), b""))
        return b"espalier_queue_tickets 0\n" not in text

    def test_nothing_there(self):
        port = free_port()
        self.assert_unhealthy(health("--port", port),
                              rf"no connection to http://127\.0\.0\.1:{port}; is the server running\?.*ESPALIER_PORT")
        self.assert_unhealthy(health("--url", f"http://127.0.0.1:{port}"), "no connection .*is the server running")
        self.assert_unhealthy(health("--url", "http://no-such-host.invalid"), "no connection|no answer")


class OptionsTest(HealthCase):
    def test_it_reads_what_serve_reads(self):
        port, admin = free_port(), free_port()
        file = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.addCleanup(file.close)
        # Keys that only `serve` knows are none of its business.
        file.write(f'host = "0.0.0.0"\nport = {port}\nadmin-port = {admin}\nmax-batch-tokens = 512\n'
                   'admin-host = "127.0.0.2"\n')
        file.flush()
        server = self.start("--config", file.name, "--port", port)
        self.assert_healthy(health("--config", file.name))
        self.assert_healthy(health(env={"ESPALIER_CONFIG": file.name}))
        variables = {"ESPALIER_ADMIN_PORT": str(admin), "ESPALIER_ADMIN_HOST": "127.0.0.2", "ESPALIER_MODEL": "none"}
        self.assert_healthy(health(env=variables))
        self.assert_healthy(health("--admin-port", admin, "--admin-host", "127.0.0.2", env={"ESPALIER_ADMIN_PORT": "1"}))
        self.assert_unhealthy(health("--admin-port", admin), "no connection")
        server.stop()

    def test_addresses_that_mean_all_are_asked_on_loopback(self):
        server = self.start("--host", "0.0.0.0")
        self.assert_healthy(health("--host", "0.0.0.0", "--port", server.port))
        server.stop()

    @unittest.skipUnless(os.path.exists("/proc/net/if_inet6"), "this machine has no IPv6")
    def test_ipv6(self):
        port = free_port()
        server = self.start("--host", "::", "--port", port)
        self.assert_healthy(health("--host", "::", "--port", port))
        self.assert_healthy(health("--host", "0:0::0", "--port", port))
        self.assert_healthy(health("--host", "::1", "--port", port))
        self.assert_healthy(health("--url", f"http://[::1]:{port}"))
        server.stop()

    def test_bad_values_end_with_1_which_container_engines_know(self):
        for arguments, env, said in (
                (("--port", "x"), {}, "--port"), (("--port", "70000"), {}, "--port"),
                (("--prot", "1"), {}, "--prot"), (("http://a",), {}, "no option"),
                ((), {"ESPALIER_PORT": "x"}, "ESPALIER_PORT"), (("--timeout", "0"), {}, "--timeout"),
                (("--timeout", "-1"), {}, "--timeout"), (("--port", "0"), {}, "--url"),
                (("--config", "/no/such.toml"), {}, "/no/such.toml"),
                (("--url", "ftp://a"), {}, "--url.*http://"), (("--url", "http://a b"), {}, "--url"),
                (("--port", "9090", "--admin-port", "9090"), {}, "--admin-port")):
            self.assert_unhealthy(health(*arguments, env=env), said)


class HostileServerTest(HealthCase):
    def listen(self, answer):
        """A server of one connection at a time that `answer(connection)` serves; its port."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def run():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        answer(connection)
                    except OSError:
                        pass
        threading.Thread(target=run, daemon=True).start()
        return listener.getsockname()[1]

    def assert_ends(self, port, said, *options, seconds_min=0.0):
        start = time.monotonic()
        done = health("--timeout", "1", *options, "--port", port)
        seconds = time.monotonic() - start
        self.assert_unhealthy(done, said)
        self.assertLess(seconds, time_limit(2))
        self.assertGreaterEqual(seconds, seconds_min)

    def test_silence(self):
        silent = self.listen(lambda connection: time.sleep(3))
        self.assert_ends(silent, "no answer from http://127.0.0.1:.* within 1 s|sends nothing", seconds_min=0.9)
        # A handshake that nobody answers, either.
        self.assert_ends(self.listen(lambda connection: time.sleep(3)), "no answer from https|TLS", "--tls-cert", "any",
                         seconds_min=0.9)

    def test_drops(self):
        def drops(connection):
            for byte in b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1000:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
        self.assert_ends(self.listen(drops), "no answer", seconds_min=0.9)

    def test_endless_bodies_are_not_read(self):
        def endless(status, framing):
            def answer(connection):
                connection.sendall(f"HTTP/1.1 {status} A\r\n{framing}\r\n\r\n".encode())
                chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
                while True:
                    connection.sendall(chunk)
            return answer
        for framing in ("Transfer-Encoding: chunked", "Content-Length: 99999999999", "Connection: close"):
            self.assert_ends(self.listen(endless(503, framing)), "answers 503")
        self.assert_ends(self.listen(lambda connection: self.flood(connection, b"X-A: " + b"a" * 1000 + b"\r\n")),
                         "without an end|broke")

    @staticmethod
    def flood(connection, line):
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            connection.sendall(line * 64)

    def test_what_is_no_answer(self):
        for answer in (b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200", b"\0" * 100):
            self.assert_ends(self.listen(lambda connection, answer=answer: connection.sendall(answer)), "broke")

    def test_states_are_ours_or_not_repeated(self):
        def answer(connection):
            connection.recv(1000)
            body = b'{"status": "\x1b[2Jfine"}'
            connection.sendall(b"HTTP/1.1 500 A\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        done = health("--port", self.listen(answer))
        self.assert_unhealthy(done, "answers 500")
        self.assertNotIn("\x1b", done.stderr)

    def test_redirects_are_not_followed(self):
        def answer(connection):
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 302 A\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n")
        self.assert_ends(self.listen(answer), "answers 302")


class TlsTest(HealthCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.ca = TestCa(cls.folder)
        cls.chain, cls.key = cls.ca.certificate("server")
        cls.server = cls.start("--tls-cert", cls.chain, "--tls-key", cls.key)
        cls.expired = cls.start("--tls-cert", *cls.expired_certificate())

    @classmethod
    def expired_certificate(cls):
        chain, key = cls.ca.certificate("late", days=0)
        return chain, "--tls-key", key

    def test_its_own_certificate_is_not_checked(self):
        for server in (self.server, self.expired):
            self.assert_healthy(health("--port", server.port, "--tls-cert", self.chain))
            self.assert_healthy(health(env={"ESPALIER_PORT": str(server.port), "ESPALIER_TLS_CERT": self.chain,
                                            "ESPALIER_TLS_KEY": self.key}))

    def test_that_of_a_url_is(self):
        url = f"https://localhost:{self.server.port}"
        self.assert_unhealthy(health("--url", url), "certificate.*not trusted.*SSL_CERT_FILE")
        self.assert_healthy(health("--url", url, env={"SSL_CERT_FILE": self.ca.root}))

    def test_plain_http_to_tls_says_what_to_look_at(self):
        self.assert_unhealthy(health("--port", self.server.port), "ESPALIER_TLS_CERT")

    def test_the_admin_port_has_no_tls(self):
        admin = free_port()
        server = self.start("--tls-cert", self.chain, "--tls-key", self.key, "--admin-port", admin)
        self.assert_healthy(health("--tls-cert", self.chain, "--admin-port", admin))
        server.stop()


if __name__ == "__main__":
    unittest.main()
