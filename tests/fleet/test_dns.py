"""Replicas by DNS, as in Kubernetes: one name, whose addresses come and go while HAProxy runs."""

import time
import unittest

from fleet import Proxy, Replica, wait_until
from espalier_server import EspalierTest, free_port
from name_server import NameServer

NAME = "espalier-pods.default.svc.cluster.local"


class DnsTest(EspalierTest):
    def setUp(self):
        ports = free_port(), free_port()
        self.replicas = []
        for number in (2, 3, 4):
            self.replicas.append(Replica(f"127.0.0.{number}", host=f"127.0.0.{number}", ports=ports))
            self.addCleanup(self.replicas[-1].close)
        self.names = NameServer(NAME, ["127.0.0.2", "127.0.0.3"])
        self.addCleanup(self.names.close)
        self.proxy = Proxy({"ESPALIER_REPLICAS_DNS": f"{NAME}:{ports[0]}", "ESPALIER_CHECK_PORT": str(ports[1]),
                            "ESPALIER_REPLICAS_MAX": "4", "ESPALIER_NAMESERVER": f"127.0.0.1:{self.names.port}"})
        self.addCleanup(self.proxy.close)

    def wait_for(self, count):
        def there():
            assert self.proxy.process.poll() is None, "".join(self.proxy.log)
            try:
                return all(len(self.proxy.replicas_up(backend)) == count for backend in ("by_prefix", "by_load"))
            except OSError:
                return False
        wait_until(there, f"{count} replicas in both backends", 30)

    def ask(self, count=30):
        """Requests with and without keys, which must succeed; the replicas that answered."""
        before = [len(replica.server.log) for replica in self.replicas]
        for number in range(count):
            for fields in ({}, {"instruction": f"find {number}"}):
                reply = self.proxy.post("/v1/embeddings", {"input": "salt", **fields})
                self.assertEqual(reply.status, 200, reply)
        return [any("route=/v1/embeddings" in line for line in replica.server.log[begin:])
                for begin, replica in zip(before, self.replicas)]

    def test_addresses_come_and_go(self):
        self.wait_for(2)
        self.assertEqual(self.ask(), [True, True, False])
        self.names.addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
        self.wait_for(3)
        self.assertEqual(self.ask(), [True, True, True])
        # One that ends: its address goes, and its requests go elsewhere before that.
        self.names.addresses = ["127.0.0.3", "127.0.0.4"]
        self.replicas[0].stop()
        self.assertEqual(self.ask()[1:], [True, True])
        self.wait_for(2)

    def test_a_name_server_that_is_silent_changes_nothing(self):
        self.wait_for(2)
        self.names.silent = True
        ends_at = time.monotonic() + 5  # several questions and their repetitions
        while time.monotonic() < ends_at:
            self.assertEqual(self.ask(3)[:2], [True, True])


if __name__ == "__main__":
    unittest.main()
