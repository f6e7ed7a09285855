"""What a service manager hears through NOTIFY_SOCKET (sd_notify), and that SIGHUP does not end a service."""

import os
import signal
import socket
import tempfile
import unittest

from espalier_server import EspalierTest, time_limit, wait_until


class Manager:
    """The other end of NOTIFY_SOCKET; `name` as the environment variable has it."""

    def __init__(self, name):
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self.socket.settimeout(time_limit(30))

    def hear(self):
        """The next datagram: {NAME: VALUE}."""
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())


class ServiceManagerTest(EspalierTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def manager(self, name):
        manager = Manager(name)
        self.addCleanup(manager.socket.close)
        return manager

    def test_it_hears_of_loading_readiness_and_the_end(self):
        for name in (os.path.join(self.folder, "notify"), f"@espalier-test-{os.getpid()}"):
            manager = self.manager(name)
            server = self.start(env={"NOTIFY_SOCKET": name})
            loading = manager.hear()
            self.assertEqual(set(loading), {"STATUS"})
            self.assertIn("loading", loading["STATUS"])
            ready = manager.hear()
            self.assertEqual(ready["READY"], "1")
            self.assertIn(f"http://127.0.0.1:{server.port}", ready["STATUS"])
            self.assertEqual(server.get("/readyz").status, 200)
            server.stop()
            self.assertEqual(manager.hear()["STOPPING"], "1")
            manager.socket.setblocking(False)
            with self.assertRaises(BlockingIOError):
                manager.socket.recv(1)

    def test_it_does_not_hear_that_a_server_that_fails_is_ready(self):
        manager = self.manager(os.path.join(self.folder, "notify"))
        with self.assertRaises(AssertionError):
            self.start(model=self.folder, env={"NOTIFY_SOCKET": manager.name})
        self.assertEqual(set(manager.hear()), {"STATUS"})
        manager.socket.setblocking(False)
        with self.assertRaises(BlockingIOError):
            manager.socket.recv(1)

    def test_reloading_does_not_end_a_service_without_a_certificate(self):
        manager = self.manager(os.path.join(self.folder, "notify"))
        server = self.start(env={"NOTIFY_SOCKET": manager.name})
        server.send_signal(signal.SIGHUP)
        wait_until(lambda: "no certificate to read again" in server.log_text(), "SIGHUP in the log")
        self.assertEqual(server.get("/readyz").status, 200)
        server.stop()

    def test_the_end_of_a_terminal_ends_what_was_started_there(self):
        server = self.start()
        server.send_signal(signal.SIGHUP)
        self.assertEqual(server.wait(), -signal.SIGHUP)

    def test_a_manager_that_is_not_there_is_a_warning(self):
        names = (os.path.join(self.folder, "nobody"), "/" + "x" * 200, "vsock-stream:2:1234")
        for name in names:
            server = self.start(env={"NOTIFY_SOCKET": name})
            wait_until(lambda server=server, name=name: f"NOTIFY_SOCKET={name} was not told" in server.log_text(),
                       "the warning")
            self.assertEqual(server.get("/readyz").status, 200)
            server.stop()


if __name__ == "__main__":
    unittest.main()
