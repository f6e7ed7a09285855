"""The README's examples: every command in a `console` block is run, and prints what the README shows.

Numbers are compared to two decimals, other values exactly; rankings by their order. Ids made anew for each request are
left out.
"""
import json
import math
import os
import re
import subprocess
import unittest
from pathlib import Path

from espalier_server import BINARY, ServerTest, time_limit

README = Path(__file__).resolve().parents[2] / "README.md"
NEW_EACH_TIME = {"id"}


def examples(text):
    """(command, expected output) of each `$ ` line and its continuation lines in console blocks."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = example.splitlines()
            command = [lines.pop(0)]
            while "\n".join(command).count("'") % 2 == 1:  # an open quotation goes on
                command.append(lines.pop(0))
            yield "\n".join(command), lines


class ReadmeTest(ServerTest):
    def assert_alike(self, shown, real, where):
        if isinstance(shown, float) or isinstance(real, float):
            self.assertTrue(math.isclose(shown, real, abs_tol=0.005), f"{where}: README has {shown}, got {real}")
        elif isinstance(shown, dict):
            self.assertEqual(list(shown), list(real), where)
            for key in shown:
                if key not in NEW_EACH_TIME:
                    self.assert_alike(shown[key], real[key], f"{where}.{key}")
        elif isinstance(shown, list):
            self.assertEqual(len(shown), len(real), where)
            for i, (a, b) in enumerate(zip(shown, real)):
                self.assert_alike(a, b, f"{where}[{i}]")
        else:
            self.assertEqual(shown, real, where)

    def test_every_example_prints_what_the_readme_shows(self):
        found = list(examples(README.read_text()))
        self.assertGreaterEqual(len(found), 7)
        environment = dict(os.environ, PATH=f"{Path(BINARY).parent}:{os.environ['PATH']}")
        for command, shown in found:
            with self.subTest(command=command):
                run = subprocess.run(
                    ["bash", "-c", command.replace("localhost:8080", f"127.0.0.1:{self.server.port}")],
                    env=environment, stdout=subprocess.PIPE, text=True, timeout=time_limit(60))
                real = run.stdout.splitlines()
                self.assertEqual(len(shown), len(real), run.stdout)
                for a, b in zip(shown, real):
                    if a.startswith("{"):
                        self.assert_alike(json.loads(a), json.loads(b), "answer")
                    else:
                        self.assertEqual(a, b)


if __name__ == "__main__":
    unittest.main()
