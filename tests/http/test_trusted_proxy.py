"""--trusted-proxy: clients behind a proxy get fair shares by the addresses that it names, and nobody else names any."""

import http.client
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from espalier_server import EspalierTest, ServerTest, free_port, random_inputs, run_espalier, time_limit, wait_until

EMBEDDINGS = "/v1/embeddings"
# One input a batch. All are of one length, so that none overtakes another one by running within its pass.
INPUT_TOKENS = 512
SLOW = ("--threads", "1", "--max-batch-tokens", str(INPUT_TOKENS), "--max-input-tokens", str(INPUT_TOKENS))
BACKLOG = 160
HEAVY, LIGHT = "192.0.2.1", "2001:db8::1"


def forwarded(*values):
    return {"X-Forwarded-For": ", ".join(values)}


def log_fields(server, request_id):
    """{name: value} of a request's line in the log, once it is there."""
    line = wait_until(lambda: next((line for line in server.log if f"={request_id} " in line), None), "the log line")
    return dict(part.split("=", 1) for part in line.split() if "=" in part)


class FairShareTest(EspalierTest):
    """A backlog of one client, then one input more: how much of the backlog was still waiting when that was answered."""

    def left_waiting(self, server, header_of_backlog, header_of_next):
        backlog = server.in_background(EMBEDDINGS, {"input": random_inputs(BACKLOG, INPUT_TOKENS, 1)}, header_of_backlog)
        wait_until(lambda: BACKLOG // 2 < server.waiting() < BACKLOG, "the backlog is being computed")
        reply = server.post(EMBEDDINGS, {"input": random_inputs(1, INPUT_TOKENS, 2)}, header_of_next)
        left = server.waiting()
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(backlog.result().status, 200)
        return left

    def test_clients_behind_a_trusted_proxy_are_told_apart(self):
        server = self.start("--trusted-proxy", "10.0.0.0/8,127.0.0.1", *SLOW)
        self.assertGreater(self.left_waiting(server, forwarded(HEAVY), forwarded(LIGHT)), BACKLOG // 4)
        # Behind two proxies, and with an address that the client made up.
        self.assertGreater(self.left_waiting(server, forwarded(HEAVY, "10.0.0.2"), forwarded(HEAVY, LIGHT, "10.0.0.2")),
                           BACKLOG // 4)
        # The same client, whoever it says that it is: it waits for what it sent before.
        self.assertEqual(self.left_waiting(server, forwarded(HEAVY), forwarded(LIGHT, HEAVY)), 0)
        server.stop()

    def test_who_is_not_trusted_cannot_pose_as_others(self):
        for options in ((), ("--trusted-proxy", "10.0.0.0/8")):
            server = self.start(*options, *SLOW)
            self.assertEqual(self.left_waiting(server, forwarded(HEAVY), forwarded(LIGHT)), 0)
            server.stop()


class LogTest(ServerTest):
    options = ("--trusted-proxy", "127.0.0.1", "--trusted-proxy", "10.0.0.0/8")

    def test_client_and_peer_of_each_request_of_a_connection(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=time_limit(60))
        cases = ((forwarded("[2001:db8::7]:81"), "2001:db8::7"), (forwarded("192.0.2.9", "192.0.2.7:81"), "192.0.2.7"),
                 (forwarded("192.0.2.9", "unknown"), None), ({}, None), ({"Forwarded": "for=192.0.2.7"}, None))
        for number, (header, client) in enumerate(cases):
            connection.request("GET", "/v1/models", headers={"X-Request-Id": f"case-{number}", **header})
            self.assertEqual(connection.getresponse().read()[:1], b"{")
            fields = log_fields(self.server, f"case-{number}")
            self.assertEqual(fields["client"], client or "127.0.0.1")
            self.assertEqual(fields.get("peer"), "127.0.0.1" if client else None)
        connection.close()

    def test_what_a_client_made_up_is_not_logged(self):
        header = {**forwarded("198.51.100.66 status=500", "192.0.2.7"), "X-Espalier-Affinity": "nobodys-business"}
        self.server.request("GET", "/v1/models", headers={"X-Request-Id": "forged-1", **header})
        self.assertEqual(log_fields(self.server, "forged-1")["client"], "192.0.2.7")
        self.assertNotIn("198.51.100.66", self.server.log_text())
        self.assertNotIn("nobodys-business", self.server.log_text())

    def test_it_lets_nobody_in(self):
        server = self.start("--api-key", "secret", *self.options)
        for client in ("127.0.0.1", "10.0.0.1", "192.0.2.7"):
            self.assert_error(server.request("GET", "/v1/models", headers=forwarded(client)), 401)
        server.stop()


class OptionTest(unittest.TestCase):
    def test_what_is_no_network_is_refused_with_the_mend(self):
        for value, mend in (("haproxy", "10.0.0.0/8"), ("10.0.0.1/8", "write 10.0.0.0/8"), ("10.0.0.0/33", "0 to 32")):
            done = run_espalier("serve", "--port", 0, "--trusted-proxy", f"127.0.0.1,{value}")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"--trusted-proxy: `{value}`", done.stderr)
            self.assertIn(mend, done.stderr)


@unittest.skipUnless(shutil.which("haproxy"), "haproxy is not installed")
class HaproxyTest(EspalierTest):
    """Through a real proxy, which sends the requests of all its clients on the same connections."""

    CONFIGURATION = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option forwardfor
  http-reuse always
listen api
  bind 127.0.0.1:{port}
  server one 127.0.0.1:{server}
"""

    def test_each_client_goes_by_its_own_address(self):
        server = self.start("--trusted-proxy", "127.0.0.1")
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "haproxy.cfg")
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.CONFIGURATION.format(port=port, server=server.port))
            proxy = subprocess.Popen(["haproxy", "-db", "-f", path], stderr=subprocess.DEVNULL)
            self.addCleanup(proxy.wait)
            self.addCleanup(proxy.kill)

            def ask(client, request_id, forged):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=time_limit(30),
                                                        source_address=(client, 0))
                try:
                    connection.request("POST", EMBEDDINGS, json.dumps({"input": "a"}),
                                       {"X-Request-Id": request_id, "Content-Type": "application/json", **forged})
                    return connection.getresponse().status
                except ConnectionRefusedError:
                    return None
                finally:
                    connection.close()

            wait_until(lambda: ask("127.0.0.2", "first", {}) == 200, "haproxy listens")
            for number in range(8):
                client = f"127.0.0.{2 + number % 3}"
                self.assertEqual(ask(client, f"ask-{number}", forwarded("192.0.2.66") if number % 2 else {}), 200)
                fields = log_fields(server, f"ask-{number}")
                self.assertEqual((fields["client"], fields["peer"]), (client, "127.0.0.1"))
        server.stop()


if __name__ == "__main__":
    unittest.main()
