"""Who sees what: the token stays with the hub, signed addresses stay as they are, certificates are checked, and
redirects lead neither round in circles nor out of TLS."""

import base64
import http.client
import http.server
import os
import select
import socket
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

from hub_test import NAME, SMALL, HubTest
from model_hub import ODD_QUERY, ModelHub

TOKEN = "hf_kept_secret"


def make_certificates(folder):
    """A test authority, and a certificate of it for both hosts: (authority, certificate, key)."""
    path = {name: os.path.join(folder, name) for name in ("ca.pem", "ca.key", "hub.pem", "hub.key", "hub.csr", "ext")}
    with open(path["ext"], "w", encoding="ascii") as file:
        file.write("subjectAltName=IP:127.0.0.1,IP:127.0.0.2,DNS:localhost\n")
    ecdsa = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for command in (
            ["req", "-x509", *ecdsa, "-keyout", path["ca.key"], "-out", path["ca.pem"], "-days", "2",
             "-subj", "/CN=test authority"],
            ["req", *ecdsa, "-keyout", path["hub.key"], "-out", path["hub.csr"], "-subj", "/CN=hub"],
            ["x509", "-req", "-in", path["hub.csr"], "-CA", path["ca.pem"], "-CAkey", path["ca.key"],
             "-CAcreateserial", "-out", path["hub.pem"], "-days", "2", "-extfile", path["ext"]]):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    return path["ca.pem"], path["hub.pem"], path["hub.key"]


class TokenTest(HubTest):
    def assert_token_stays(self, hub):
        for request in hub.requests:
            expected = f"Bearer {TOKEN}" if request.host == "hub" else None
            self.assertEqual(request.headers.get("authorization"), expected, request)
            self.assertNotIn(TOKEN, request.path)

    def test_it_goes_to_the_hub_alone(self):
        self.hub.add(NAME, SMALL).token = TOKEN
        for elsewhere in (False, True):
            self.hub.small_files_elsewhere = elsewhere
            with tempfile.TemporaryDirectory() as cache:
                self.download(HF_TOKEN=TOKEN, HF_HUB_CACHE=cache)
        self.assertGreater(len([request for request in self.hub.requests if request.host == "cdn"]), 2)
        self.assert_token_stays(self.hub)

    def test_no_other_port_name_or_scheme_is_the_hub(self):
        """A redirect of everything to another server that answers as the hub would."""
        other = ModelHub()
        self.addCleanup(other.close)
        for hub in (self.hub, other):
            hub.add(NAME, SMALL)
        port = urllib.parse.urlsplit(other.endpoint).port
        for target in (other.endpoint, f"http://localhost:{port}", f"http://127.0.0.1.:{port}", f"//127.0.0.1:{port}",
                       f"HTTP://127.0.0.1:{port}"):
            self.hub.before = lambda handler, request, target=target: request.host == "hub" and (
                self.hub.reply(handler, 302, [("Location", target + request.path)]) or True)
            other.forget()
            self.run_command("download", NAME, HF_TOKEN=TOKEN, HF_HUB_CACHE=os.path.join(self.home, str(hash(target))))
            for request in other.requests:
                self.assertNotIn("authorization", request.headers, target)
            self.assertGreater(other.count() if "127.0.0.1.:" not in target else 1, 0, target)
        for request in self.hub.requests:
            self.assertEqual(request.headers.get("authorization"), f"Bearer {TOKEN}")

    def test_it_is_in_no_message(self):
        self.hub.add(NAME, SMALL)
        for status in (401, 403, 404, 500):
            self.hub.before = lambda handler, request, status=status: self.hub.refuse(handler, status) or True
            self.assertNotIn(TOKEN, self.assert_fails("model espalier/mini", HF_TOKEN=TOKEN))

    def test_what_the_hub_says_cannot_steer_the_terminal(self):
        self.hub.add(NAME, SMALL)
        self.hub.before = lambda handler, request: self.hub.refuse(
            handler, 404, message="bad \x1b[2J\x07 news " + "x" * 1000) or True
        stderr = self.assert_fails(r"the hub says: bad \[2J news x+\)$")
        self.assertNotIn("\x1b", stderr)
        self.assertLess(len(stderr), 1200)


class RedirectTest(HubTest):
    def redirect(self, locations, statuses=(301, 302, 303, 307, 308)):
        """Each GET of a file's content is first sent to locations(request)."""
        count = [0]

        def before(handler, request):
            location = locations(request)
            if location is None:
                return False
            count[0] += 1
            self.hub.reply(handler, statuses[count[0] % len(statuses)], [("Location", location)])
            return True

        self.hub.before = before

    def test_signed_addresses_stay_byte_for_byte(self):
        self.hub.add(NAME, SMALL)
        self.download()
        signed = [request for request in self.hub.requests if request.host == "cdn"]
        self.assertEqual({request.path.partition("?")[2] for request in signed}, {ODD_QUERY})

    def test_relative_ones_are_resolved(self):
        self.hub.add(NAME, SMALL)
        commit = self.hub.models[NAME].commit
        wanted = f"/{NAME}/resolve/{commit}/config.json"
        for location in ("/moved?/a/../b=%2e", "?moved", "../moved/x", "./moved", "moved#fragment"):
            def locations(request, location=location):
                return location if request.path == wanted and request.method == "GET" else (
                    wanted + "?" if "moved" in request.path and not request.path.endswith("json?") else None)

            def before(handler, request, locations=locations):
                target = locations(request)
                if target is None and request.path == wanted + "?":
                    request.path = wanted
                    self.hub.answer(handler, request)
                    return True
                if target is None:
                    return False
                self.hub.reply(handler, 302, [("Location", target)])
                return True

            self.hub.before = before
            self.hub.forget()
            with tempfile.TemporaryDirectory() as cache:
                self.download(HF_HUB_CACHE=cache)
            moved = [request.path for request in self.hub.requests if "moved" in request.path]
            expected = {"/moved?/a/../b=%2e": "/moved?/a/../b=%2e", "?moved": wanted + "?moved",
                        "../moved/x": f"/{NAME}/resolve/moved/x", "./moved": f"/{NAME}/resolve/{commit}/moved",
                        "moved#fragment": f"/{NAME}/resolve/{commit}/moved"}[location]
            self.assertEqual(moved, [expected])

    def test_a_renamed_repository_is_followed(self):
        self.hub.add("new/name", SMALL)

        def before(handler, request):
            if NAME not in request.path:
                return False
            self.hub.reply(handler, 307, [("Location", request.path.replace(NAME, "new/name"))])
            return True

        self.hub.before = before
        path = self.download()
        self.assertIn("models--espalier--mini", path)
        self.assertEqual(set(os.listdir(path)), set(SMALL))

    def test_circles_end(self):
        self.hub.add(NAME, SMALL)
        for containing in ("/api/", "config.json", "blobs/"):
            self.redirect(lambda request, containing=containing: request.path if containing in request.path else None)
            self.assert_fails("redirects without end")

    def test_addresses_that_are_none(self):
        self.hub.add(NAME, SMALL)
        for location, message in (("ftp://127.0.0.1/x", "https:// or http://"), ("http://a b/", "space or a control"),
                                  ("http://user@127.0.0.1/", "user name"), ("http://[::1", "address"),
                                  ("http://127.0.0.1:0/", "port"), ("http://127.0.0.1:99999/", "port"),
                                  ("http:///x", "host"), ("file:///etc/passwd", "https:// or http://")):
            self.redirect(lambda request, location=location: location if "blobs/" in request.path else None)
            self.assert_fails(message)

    def test_endpoints_that_are_none(self):
        for endpoint in ("huggingface.co", "ftp://x", "http://", "http://x/?a=b", "http://u:p@x"):
            done = self.run_command("download", NAME, HF_ENDPOINT=endpoint)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "HF_ENDPOINT: ")

    def test_an_endpoint_may_have_a_path_and_slashes_at_its_end(self):
        self.hub.add(NAME, SMALL)

        def before(handler, request):
            if request.host == "hub":
                self.assertTrue(request.path.startswith("/mirror/hf/"), request.path)
                request.path = request.path[len("/mirror/hf"):]
                self.hub.answer(handler, request)
                return True
            return False

        self.hub.before = before
        self.assert_snapshot(self.download(HF_ENDPOINT=self.hub.endpoint + "/mirror/hf//"), SMALL)


class TlsTest(HubTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.authority, *files = make_certificates(cls.folder.name)
        cls.tls = tuple(files)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_trusted_hub(self):
        self.hub.add(NAME, SMALL).token = TOKEN
        self.assert_snapshot(self.download(SSL_CERT_FILE=self.authority, HF_TOKEN=TOKEN), SMALL)
        TokenTest.assert_token_stays(self, self.hub)

    def test_cuts_and_silence_over_tls(self):
        self.hub.add(NAME, {**SMALL, "model.safetensors": bytes(2_000_000)})
        cuts = [500_000, 900_000]
        self.hub.cut_after = lambda path: cuts.pop() if path == "model.safetensors" and cuts else None
        silent = []

        def before(handler, request):
            if "config.json" in request.path and not silent:
                silent.append(1)
                import time
                time.sleep(3)
            return False

        self.hub.before = before
        path = self.download(SSL_CERT_FILE=self.authority, HF_HUB_DOWNLOAD_TIMEOUT="1")
        self.assert_snapshot(path, SMALL)
        self.assertRegex(self.log, "sends nothing for 1 s; trying again")

    def test_an_unknown_authority_is_refused_at_once(self):
        self.hub.add(NAME, SMALL)
        stderr = self.assert_fails("the certificate of https://127.0.0.1:[0-9]+ is not trusted", "SSL_CERT_FILE")
        self.assertNotIn("trying again", stderr)
        self.assertEqual(self.hub.requests, [])

    def test_a_certificate_of_another_host_is_refused(self):
        self.hub.add(NAME, SMALL)
        port = urllib.parse.urlsplit(self.hub.endpoint).port
        server = self.hub.servers[0].socket
        self.assertEqual(server.getsockname()[1], port)
        forward = Forwarder("127.0.0.3", port)
        self.addCleanup(forward.close)
        self.assert_fails("is not trusted, or is that of another host", SSL_CERT_FILE=self.authority,
                          HF_ENDPOINT=f"https://127.0.0.3:{forward.port}")
        self.assertEqual(self.hub.requests, [])

    def test_tls_is_never_left(self):
        self.hub.add(NAME, SMALL)
        plain = ModelHub()
        self.addCleanup(plain.close)
        plain.add(NAME, SMALL)
        for containing in ("/api/", "config.json", "blobs/"):
            self.hub.before = lambda handler, request, containing=containing: containing in request.path and (
                self.hub.reply(handler, 302, [("Location", plain.endpoint + request.path)]) or True)
            self.assert_fails("redirects to http://127.0.0.1:[0-9]+, which is not encrypted",
                              SSL_CERT_FILE=self.authority, HF_TOKEN=TOKEN)
        self.assertEqual(plain.requests, [])

    def test_through_a_proxy(self):
        self.hub.add(NAME, SMALL)
        proxy = Proxy()
        self.addCleanup(proxy.close)
        self.download(SSL_CERT_FILE=self.authority, HTTPS_PROXY=f"http://ann:pw@127.0.0.1:{proxy.port}")
        hosts = {request[1] for request in proxy.requests}
        self.assertEqual({request[0] for request in proxy.requests}, {"CONNECT"})
        self.assertEqual(hosts, {self.hub.endpoint[8:], self.hub.cdn[8:]})
        for _, _, headers in proxy.requests:
            self.assertEqual(headers.get("Proxy-Authorization"), "Basic " + base64.b64encode(b"ann:pw").decode())


class ProxyTest(HubTest):
    def test_http_proxies_and_who_goes_without(self):
        self.hub.add(NAME, SMALL)
        proxy = Proxy()
        self.addCleanup(proxy.close)
        address = f"http://127.0.0.1:{proxy.port}"
        for number, (settings, used) in enumerate((
                ({"HTTP_PROXY": address}, True), ({"http_proxy": address}, True), ({"ALL_PROXY": address}, True),
                ({"http_proxy": address[7:]}, True), ({"HTTPS_PROXY": address}, False),
                ({"HTTP_PROXY": address, "NO_PROXY": "x.test, 127.0.0.1,127.0.0.2"}, False),
                ({"HTTP_PROXY": address, "no_proxy": "*"}, False))):
            proxy.requests.clear()
            self.download(HF_HUB_CACHE=f"{self.home}/{number}", HF_TOKEN=TOKEN, **settings)
            self.assertEqual(bool(proxy.requests), used, settings)
        self.assert_fails("HTTP_PROXY is none that can be used", HTTP_PROXY="socks5://secret:pw@x:1")


class Forwarder:
    """TCP connections to `address` go on to 127.0.0.1:port."""

    def __init__(self, address, port):
        self.target = port
        self.listener = socket.create_server((address, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=relay, args=(client, server), daemon=True).start()

    def close(self):
        self.listener.close()


def relay(one, other):
    with one, other:
        try:
            while True:
                for ready in select.select([one, other], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    (other if ready is one else one).sendall(data)
        except OSError:
            pass


class Proxy:
    """CONNECT, and requests with whole addresses, which it answers by asking."""

    def __init__(self):
        self.requests = requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_CONNECT(self):
                requests.append(("CONNECT", self.path, self.headers))
                host, port = self.path.rsplit(":", 1)
                server = socket.create_connection((host, int(port)))
                self.send_response(200, "Connection established")
                self.end_headers()
                relay(self.connection, server)
                self.close_connection = True

            def do_GET(self):
                requests.append((self.command, self.path, self.headers))
                url = urllib.parse.urlsplit(self.path)
                connection = http.client.HTTPConnection(url.hostname, url.port)
                headers = {name: value for name, value in self.headers.items() if not name.startswith("Proxy")}
                connection.request(self.command, self.path[len(f"http://{url.netloc}"):], headers=headers)
                answer = connection.getresponse()
                body = answer.read()
                connection.close()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name not in ("Connection", "Server", "Date"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_HEAD = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":
    unittest.main()
