"""HTTPS with a certificate of a CA made for the test: curl and Python's client trust that CA and nothing else."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

from espalier_server import (MODEL, EspalierTest, read_answer, run_espalier, time_limit, wait_until)

EMBEDDINGS = "/v1/embeddings"


def openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"openssl {' '.join(map(str, arguments))}: {done.stderr}")


class TestCa:
    """A root, an intermediate CA that it vouches for, and server certificates of that one."""

    def __init__(self, folder):
        self.folder = folder
        self.serial = 100
        self.root = os.path.join(folder, "root.pem")
        self._key("root")
        openssl("req", "-x509", "-new", "-key", self._path("root.key"), "-subj", "/CN=Test root", "-days", 2,
                "-out", self.root)
        self._sign("intermediate", "root", "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign")

    def _path(self, name):
        return os.path.join(self.folder, name)

    def _key(self, name):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self._path(name + ".key"))

    def _sign(self, name, issuer, extensions, days=2):
        self.serial += 1
        self._key(name)
        with open(self._path(name + ".ext"), "w", encoding="utf-8") as file:
            file.write(extensions + "\n")
        openssl("req", "-new", "-key", self._path(name + ".key"), "-subj", f"/CN={name}", "-out",
                self._path(name + ".csr"))
        openssl("x509", "-req", "-in", self._path(name + ".csr"), "-CA", self._path(issuer + ".pem"), "-CAkey",
                self._path(issuer + ".key"), "-set_serial", self.serial, "-days", days, "-extfile",
                self._path(name + ".ext"), "-out", self._path(name + ".pem"))

    def certificate(self, name, days=2):
        """(chain file, key file) of a new certificate for localhost."""
        self._sign(name, "intermediate", "subjectAltName=DNS:localhost,IP:127.0.0.1", days)
        chain = self._path(name + "-chain.pem")
        with open(chain, "w", encoding="utf-8") as file:
            for part in (name, "intermediate"):
                with open(self._path(part + ".pem"), encoding="utf-8") as source:
                    file.write(source.read())
        return chain, self._path(name + ".key")


class TlsTest(EspalierTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.ca = TestCa(folder.name)
        cls.chain, cls.key = cls.ca.certificate("first")
        cls.server = cls.start("--tls-cert", cls.chain, "--tls-key", cls.key)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def url(self, path):
        return f"https://localhost:{self.server.port}{path}"

    def curl(self, *arguments, ca=None):
        return subprocess.run(["curl", "-sS", "--cacert", ca or self.ca.root, *arguments], capture_output=True,
                              text=True, timeout=time_limit(60), check=False)

    def connect(self):
        """A connection that has checked the server's certificate."""
        trust = ssl.create_default_context(cafile=self.ca.root)
        return trust.wrap_socket(self.server.connect(), server_hostname="localhost")

    def request(self, inputs, **fields):
        body = json.dumps({"input": inputs, **fields}).encode()
        return (f"POST {EMBEDDINGS} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def test_curl_trusts_it_through_the_chain_and_keeps_the_connection(self):
        body = json.dumps({"input": "a cat"})
        arguments = ["-H", "Content-Type: application/json", "-d", body, "-w", "\n%{http_code} %{num_connects}\n",
                     self.url(EMBEDDINGS)]
        done = self.curl(*arguments, "-o", "/dev/null", self.url(EMBEDDINGS), "-o", "/dev/null")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), ["200", "1", "200", "0"])

    def test_curl_that_trusts_another_ca_gives_up(self):
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        done = self.curl(self.url("/livez"), ca=TestCa(other).root)
        self.assertEqual(done.returncode, 60, done)  # CURLE_PEER_FAILED_VERIFICATION

    def test_versions_before_1_2_are_refused(self):
        # Clients of today refuse them themselves unless they are told not to.
        for arguments in (["--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0"],):
            self.assertEqual(self.curl(*arguments, self.url("/livez")).returncode, 35)
        for arguments in (["--tls-max", "1.2"], ["--tlsv1.3"]):
            self.assertEqual(self.curl(*arguments, self.url("/livez")).returncode, 0)

    def test_vectors_are_those_of_the_command_line(self):
        with self.connect() as connection:
            connection.sendall(self.request("a cat"))
            answer = read_answer(connection)
        done = run_espalier("embed", "--model", MODEL, stdin='{"text": "a cat"}\n')
        self.assertLess(abs(answer.embeddings()[0] - json.loads(done.stdout)["embedding"]).max(), 1e-6)

    def test_pipelined_requests_are_answered_in_order(self):
        inputs = [f"text {number}" for number in range(20)]
        with self.connect() as connection:
            connection.sendall(b"".join(self.request(text) for text in inputs))
            with connection.makefile("rb") as stream:
                tokens = []
                for _ in inputs:
                    head = b""
                    while not head.endswith(b"\r\n\r\n"):
                        head += stream.readline()
                    self.assertTrue(head.startswith(b"HTTP/1.1 200"), head)
                    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                                  if line.lower().startswith(b"content-length"))
                    tokens.append(json.loads(stream.read(length))["usage"]["prompt_tokens"])
        self.assertEqual(len(tokens), 20)

    def test_large_bodies_and_answers_arrive_whole(self):
        text = "salt and pepper " * 200  # the same again costs nothing
        count = 1500
        with self.connect() as connection:
            connection.sendall(self.request([text] * count))  # 4.8 MB
            answer = read_answer(connection)  # about 4 MB
        self.assertEqual(answer.status, 200)
        vectors = answer.embeddings()
        self.assertEqual(len(vectors), count)
        self.assertTrue((vectors == vectors[0]).all())

    def test_body_that_drips_in_is_read(self):
        request = self.request("slowly")
        with self.connect() as connection:
            for byte in request:
                connection.sendall(bytes([byte]))
            self.assertEqual(read_answer(connection).status, 200)

    def test_half_handshakes_and_garbage_hold_nobody_up(self):
        hello = bytes.fromhex("1603010200010001fc0303")
        with_nothing = [self.server.connect() for _ in range(50)]
        for number, connection in enumerate(with_nothing):
            connection.sendall((hello, b"\x16\x03\x01\x00\x10" + b"g" * 400, b"\x80\x00" * 50)[number % 3])
        with self.connect() as connection:
            connection.sendall(self.request("still there"))
            self.assertEqual(read_answer(connection).status, 200)
        for connection in with_nothing:
            connection.close()

    def test_plain_http_is_told_to_use_tls(self):
        answer = self.server.exchange(b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n")
        self.assert_error(answer, 400, message="https://")

    def test_connection_is_closed_with_a_farewell(self):
        with self.connect() as connection:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
            received = b""
            while more := connection.recv(4096):  # without the farewell this raises SSLEOFError
                received += more
        self.assertTrue(received.endswith(b'{"status":"ok"}'), received)

    def test_the_log_names_the_url(self):
        self.assertIn(f"is ready at https://127.0.0.1:{self.server.port}", self.server.log_text())


class ReloadTest(TlsTest):
    """Also runs all of the above, with what it has reloaded."""

    def serial(self):
        with self.connect() as connection:
            return int(connection.getpeercert()["serialNumber"], 16)

    def test_sighup_reads_the_certificate_again(self):
        before = self.serial()
        chain, key = self.ca.certificate("second")
        with self.connect() as old:
            shutil.copy(chain, self.chain)  # the key is still the old one
            self.server.send_signal(signal.SIGHUP)
            wait_until(lambda: "stays as it was" in self.server.log_text(), "the refusal in the log")
            self.assertEqual(self.serial(), before)
            shutil.copy(key, self.key)
            self.server.send_signal(signal.SIGHUP)
            wait_until(lambda: "has been read again" in self.server.log_text(), "the reload in the log")
            self.assertNotEqual(self.serial(), before)
            old.sendall(self.request("the old connection lives on"))
            self.assertEqual(read_answer(old).status, 200)


class StartTest(EspalierTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.ca = TestCa(folder.name)
        cls.chain, cls.key = cls.ca.certificate("first")
        cls.other_key = cls.ca.certificate("other")[1]

    def assert_refused(self, *options, message):
        done = run_espalier("serve", "--port", 0, "--model", MODEL, *options)
        self.assertNotIn(done.returncode, (0, -signal.SIGABRT, -signal.SIGSEGV))
        for part in message:
            self.assertIn(part, done.stderr)

    def test_mistakes_are_named(self):
        self.assert_refused("--tls-cert", self.chain, message=["--tls-key"])
        self.assert_refused("--tls-cert", "/no/such", "--tls-key", self.key, message=["--tls-cert", "/no/such"])
        self.assert_refused("--tls-cert", self.chain, "--tls-key", "/no/such", message=["--tls-key", "/no/such"])
        self.assert_refused("--tls-cert", self.chain, "--tls-key", self.other_key, message=["does not belong"])
        self.assert_refused("--tls-cert", self.key, "--tls-key", self.key, message=["--tls-cert", "PEM"])

    def test_expired_certificate_is_only_a_warning(self):
        chain, key = self.ca.certificate("expired", days=-1)
        server = self.start("--tls-cert", chain, "--tls-key", key)
        self.assertIn("has expired", server.log_text())
        server.stop()

    def test_tls_on_a_plain_port_is_refused(self):
        server = self.start()
        trust = ssl.create_default_context(cafile=self.ca.root)
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            trust.wrap_socket(socket.create_connection(("127.0.0.1", server.port)), server_hostname="localhost")
        self.assertEqual(server.get("/livez").status, 200)
        server.stop()


if __name__ == "__main__":
    unittest.main()
