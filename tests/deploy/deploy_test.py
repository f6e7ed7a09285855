"""What the tests of deployment files share: the files, and the options that the server really has."""

import os
import re
import sys
import unittest

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
from espalier_server import run_espalier  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVER_PORT = 8080
ADMIN_PORT = 9090


def path(*parts):
    return os.path.join(ROOT, *parts)


def read(*parts):
    with open(path(*parts), encoding="utf-8") as file:
        return file.read()


def read_yaml(*parts):
    return yaml.safe_load(read(*parts))


def server_variables():
    """The environment variables that `espalier serve` reads, by its own help."""
    names = set(re.findall(r"environment(?:, by commas)?:\s+(ESPALIER_[A-Z_]+)", run_espalier("serve", "--help").stdout))
    assert len(names) > 30, names
    return names


def proxy_variables():
    """Those that configs/haproxy.cfg explains; `ESPALIER_REPLICA_1 … _8` stands for eight."""
    names = set()
    for first, last in re.findall(r"^#.*?\b(ESPALIER_[A-Z_]+[A-Z1])(?: … _(\d))?", read("configs", "haproxy.cfg"), re.MULTILINE):
        names |= {f"{first[:-1]}{number}" for number in range(1, int(last) + 1)} if last else {first}
    return names


class DeployTest(unittest.TestCase):
    def assert_anchor(self, target, here="."):
        """`docs/page.md#heading` exists."""
        page, heading = target.split("#")
        headings = {re.sub(r"[^\w -]", "", line.lstrip("# ")).strip().replace(" ", "-").lower()
                    for line in read(here, page).splitlines() if line.startswith("#")}
        self.assertIn(heading, headings, target)
