"""The servers of the compose files in the image that tests/container has built, run by runc as Compose would run them: their environment,
their secret as a file of the host, a root that is read-only. The ports are other ones, for the network is the host's."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from deploy_test import DeployTest, path, read
from espalier_server import free_port
from test_compose import compose

sys.path.insert(0, path("tests", "container"))
import image  # noqa: E402
from container import CACHE, Container, run_in, run_tests  # noqa: E402

IMAGE = None  # run_tests() gives it


class ContainerTest(DeployTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.mkdir(os.path.join(folder.name, "docker"))
        command = re.search(r"^#   (install .*)", read("docker", "compose.fleet.yaml"), re.MULTILINE).group(1)
        subprocess.run(["bash", "-c", f"umask 077; {command}"], cwd=folder.name, check=True, timeout=60)
        self.keys = os.path.join(folder.name, "docker", "secrets", "keys")

    def settings(self, file, name):
        service = compose(file)["services"][name]
        self.assertTrue(service["read_only"])  # as Container has it
        self.assertIn(CACHE, [volume.split(":")[1] for volume in service["volumes"]])
        self.assertEqual([secret["source"] for secret in service["secrets"]], ["keys"])
        environment = {name: value for name, value in service["environment"].items() if value is not None}
        environment["ESPALIER_PORT"] = "0"
        if "ESPALIER_ADMIN_PORT" in environment:
            environment["ESPALIER_ADMIN_PORT"] = str(free_port())
        return environment

    def test_both_serve_with_the_key_alone_and_are_healthy(self):
        with open(self.keys, encoding="utf-8") as file:
            key = {"Authorization": f"Bearer {file.read().split()[1]}"}
        for file, name in (("compose.yaml", "espalier"), ("compose.fleet.yaml", "replica-1")):
            environment = self.settings(file, name)
            server = Container(IMAGE, env=environment, volumes=[(self.keys, "/run/secrets/keys")])
            self.addCleanup(server.close)
            self.assertNotEqual(server.bundle.user[0], 0)
            self.assertEqual(server.post("/v1/embeddings", {"input": "salt"}).status, 401)
            self.assertEqual(server.post("/v1/embeddings", {"input": "salt"}, key).status, 200)
            health = IMAGE.config["Healthcheck"]["Test"]
            self.assertEqual(health[0], "CMD")
            done = server.execute(*health[1:], env={**environment, "ESPALIER_PORT": str(server.port)})
            self.assertEqual(done.returncode, 0, done.stderr)
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 0, server.log_text())

    def test_a_key_file_that_is_missing_or_unreadable_is_named(self):
        environment = self.settings("compose.yaml", "espalier")
        os.chmod(self.keys, 0o600)
        for volumes in ([], [(self.keys, "/run/secrets/keys")]):
            done = run_in(IMAGE, env=environment, volumes=volumes)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("--api-key-file /run/secrets/keys cannot be read", done.stderr)


def image_of_the_other_tests():
    if not image.has_image(image.TAG):
        raise image.NotHere("there is no image: container_image builds it")
    return image.Image(image.TAG)


if __name__ == "__main__":
    run_tests(image_of_the_other_tests, "buildah", "docker-compose")
