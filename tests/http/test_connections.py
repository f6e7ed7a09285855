"""A thousand idle connections, hundreds of slow senders, no descriptors left: new clients are served all the same."""

import os
import resource
import socket
import tempfile
import time
import unittest

from espalier_server import BINARY, EspalierTest, free_port, read_answer, time_limit, wait_until
from test_admin_port import fetch

EMBEDDINGS = "/v1/embeddings"
IDLE = 1000
SLOW = 400  # more than there are request threads
LISTENING = "0A"  # in /proc/net/tcp
READERS = 20
LIVE = b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n"


def cpu_seconds(pid):
    """Of the whole process, user and system."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bytes_to_send(port):
    """Of each connection to this port, what the kernel holds of the server's answers."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        lines = [line.split() for line in file.readlines()[1:]]
    return [int(queues.split(":")[0], 16) for _, local, _, state, queues, *_ in lines
            if state != LISTENING and int(local.rpartition(":")[2], 16) == port]


class ConnectionsTest(EspalierTest):
    @classmethod
    def setUpClass(cls):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def open(self, server, count, first_bytes=b""):
        connections = [server.connect() for _ in range(count)]
        for connection in connections:
            self.addCleanup(connection.close)
            if first_bytes:
                connection.sendall(first_bytes)
        return connections

    def assert_serves(self, server):
        for _ in range(5):
            start = time.monotonic()
            self.assertEqual(server.get("/livez").status, 200)
            self.assertEqual(server.post(EMBEDDINGS, {"input": "a short text"}).status, 200)
            self.assertLess(time.monotonic() - start, time_limit(2))

    def test_a_thousand_idle_connections_cost_nothing(self):
        server = self.start()
        idle = self.open(server, IDLE)
        for connection in idle[::2]:  # half of them have been used
            connection.sendall(LIVE)
        for connection in idle[::2]:
            self.assertEqual(read_answer(connection).status, 200)
        self.assert_serves(server)
        before, start = cpu_seconds(server.process.pid), time.monotonic()
        time.sleep(3)
        share = (cpu_seconds(server.process.pid) - before) / (time.monotonic() - start)
        self.assertLess(share, 0.02)
        for connection in idle:  # they are all still there
            connection.sendall(LIVE)
        for connection in idle:
            self.assertEqual(read_answer(connection).status, 200)
        server.stop()

    def test_slow_senders_hold_no_request_threads(self):
        server = self.start()
        head = (f"POST {EMBEDDINGS} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
                "Content-Length: 1000\r\n\r\n").encode()
        chunked = (f"POST {EMBEDDINGS} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n3e8\r\n").encode()
        slow = self.open(server, SLOW // 2, head) + self.open(server, SLOW // 2, chunked)
        for connection in slow:
            connection.sendall(b'{"input": ')
        self.assert_serves(server)
        rest = b'"x"}'.ljust(1000 - len(b'{"input": '))
        for number, connection in enumerate(slow):
            connection.sendall(rest + (b"" if number < SLOW // 2 else b"\r\n0\r\n\r\n"))
        for connection in slow:
            self.assertEqual(read_answer(connection).status, 200)
        server.stop()

    def test_readers_that_stop_hold_little_of_the_kernels_memory(self):
        server = self.start()
        readers = self.open(server, READERS, b"GET /docs HTTP/1.1\r\nHost: t\r\n\r\n" * 200)
        for _ in range(3):  # what has been read makes the kernel take more
            for reader in readers:
                reader.recv(16 * 1024)
            time.sleep(0.5)
        held = bytes_to_send(server.port)
        self.assertGreaterEqual(len(held), READERS)
        self.assertGreater(sum(held), 0)
        self.assertLess(sum(held) / len(held), 160 * 1024)
        self.assert_serves(server)
        for reader in readers:
            reader.close()
        server.stop()

    def test_without_descriptors_the_longest_idle_make_room(self):
        admin = free_port()
        server = self.start("--admin-port", admin, binary=self.with_few_descriptors(256))
        self.assertIn("up to 256 files and connections", server.log_text())
        idle = self.open(server, IDLE)
        time.sleep(0.5)
        self.assertEqual(fetch(admin, "/livez")[0], 200)
        for _ in range(20):
            self.assertEqual(server.post(EMBEDDINGS, {"input": "a short text"}).status, 200)
        self.assertIn("as many as may be", server.log_text())
        self.assertLess(server.log_text().count("as many as may be"), 3)
        # The youngest is still there, the oldest is not.
        idle[-1].sendall(b"GET /v1/models HTTP/1.1\r\nHost: t\r\n\r\n")
        self.assertEqual(read_answer(idle[-1]).status, 200)
        idle[0].settimeout(time_limit(10))
        self.assertIn(self._ending(idle[0]), (b"", None))
        server.stop()

    def with_few_descriptors(self, count):
        """A program that is espalier with this limit, which it cannot raise."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "espalier")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nulimit -n {count}\nexec "{os.path.abspath(BINARY)}" "$@"\n')
        os.chmod(path, 0o755)
        return path

    @staticmethod
    def _ending(connection):
        try:
            return connection.recv(1)
        except ConnectionResetError:
            return None

    def test_clients_that_connect_and_vanish_leave_nothing(self):
        server = self.start()
        descriptors = lambda: len(os.listdir(f"/proc/{server.process.pid}/fd"))
        before = descriptors()
        for _ in range(5):
            for connection in self.open(server, 200, b"POST /v1/embeddings HTTP/1.1\r\nHost: t\r\nContent-Le"):
                connection.close()
        wait_until(lambda: descriptors() <= before + 2, "the connections to be closed")
        server.stop()

    def test_long_heads_are_told_so(self):
        server = self.start("--max-header-kb", 2)
        answer = server.exchange(b"GET /livez HTTP/1.1\r\nHost: t\r\nX: " + b"x" * 3000 + b"\r\n\r\n")
        self.assert_error(answer, 431, code="header_too_large", message="--max-header-kb")
        self.assertEqual(server.exchange(b"GET /livez HTTP/1.1\r\nHost: t\r\nX: " + b"x" * 1500 + b"\r\n\r\n").status,
                         200)
        server.stop()


if __name__ == "__main__":
    unittest.main()
