"""What the tests of the hub share: a hub, a cache folder of its own for each test, and the command."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
from espalier_server import BINARY, MODEL, environment, run_espalier, time_limit  # noqa: E402,F401

from model_hub import ModelHub, etag_of, folder_files, git_sha1  # noqa: E402

NAME = "espalier/mini"
MINI = folder_files(MODEL, skip=("training", "golden", "eval_", "README", "LICENSE"))
SMALL = {"config.json": b"{}", "tokenizer.json": b'{"tokenizer": 1}' * 100, "model.safetensors": bytes(range(256)) * 4000}


class HubTest(unittest.TestCase):
    tls = None

    def setUp(self):
        self.hub = ModelHub(self.tls)
        self.addCleanup(self.hub.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = folder.name
        self.cache = os.path.join(self.home, "hub")

    def environment(self, **more):
        clean = {name: "" for name in os.environ if name.lower().endswith("_proxy") or name.startswith("HF_")}
        settings = {**clean, "HF_ENDPOINT": self.hub.endpoint, "HF_HOME": self.home, "HOME": self.home,
                    "HF_HUB_DOWNLOAD_TIMEOUT": "10", **more}
        return {name: value for name, value in settings.items() if value is not None}

    def run_command(self, *arguments, stdin="", seconds_max=60, **env):
        return run_espalier(*arguments, env=self.environment(**env), stdin=stdin, seconds_max=seconds_max)

    def download(self, name=NAME, **env):
        """The path that `espalier download` prints; it must succeed."""
        done = self.run_command("download", name, **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.log = done.stderr
        return done.stdout.strip()

    def start_download(self, name=NAME, preexec=None, **env):
        return subprocess.Popen([BINARY, "download", name], env=environment(self.environment(**env)), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=preexec,
                                restore_signals=preexec is None)

    def assert_fails(self, *patterns, name=NAME, **env):
        done = self.run_command("download", name, **env)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        last = done.stderr.strip().splitlines()[-1]
        for pattern in patterns:
            self.assertRegex(last, pattern)
        self.assert_nothing_half()
        return done.stderr

    # The cache -----------------------------------------------------------------------------------------------------

    def repository(self, name=NAME):
        return os.path.join(self.cache, "models--" + name.replace("/", "--"))

    def partial_files(self, name=NAME):
        blobs = os.path.join(self.repository(name), "blobs")
        return {file: os.path.getsize(os.path.join(blobs, file)) for file in os.listdir(blobs)
                if file.endswith(".incomplete")} if os.path.isdir(blobs) else {}

    def assert_nothing_half(self):
        """Whatever is in place has the content that its name promises."""
        for name in self.hub.models:
            blobs = os.path.join(self.repository(name), "blobs")
            for file in os.listdir(blobs) if os.path.isdir(blobs) else ():
                if not file.endswith(".incomplete"):
                    with open(os.path.join(blobs, file), "rb") as blob:
                        content = blob.read()
                    self.assertIn(file, (git_sha1(content), hashlib.sha256(content).hexdigest()))

    def assert_snapshot(self, path, files, name=NAME):
        """`path` holds exactly `files`, each a relative link to its blob."""
        model = self.hub.models[name]
        self.assertEqual(path, os.path.join(self.repository(name), "snapshots", model.commit))
        found = folder_files(path)
        self.assertEqual(set(found), set(files))
        for file in files:
            self.assertTrue(found[file] == model.files[file], file)
            link = os.path.join(path, file)
            self.assertEqual(os.readlink(link), "../" * file.count("/") + "../../blobs/" +
                             etag_of(file, model.files[file]))
        with open(os.path.join(self.repository(name), "refs", "main"), encoding="ascii") as ref:
            self.assertEqual(ref.read(), model.commit)
        self.assertEqual(self.partial_files(name), {})

    def fill_cache_by_hand(self, files, name=NAME, commit="a" * 40, revision="main"):
        """As huggingface_hub leaves it."""
        root = self.repository(name)
        for path, content in files.items():
            blob = os.path.join(root, "blobs", etag_of(path, content))
            os.makedirs(os.path.dirname(blob), exist_ok=True)
            with open(blob, "wb") as file:
                file.write(content)
            link = os.path.join(root, "snapshots", commit, path)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(os.path.relpath(blob, os.path.dirname(link)), link)
        os.makedirs(os.path.join(root, "refs"), exist_ok=True)
        with open(os.path.join(root, "refs", revision), "w", encoding="ascii") as ref:
            ref.write(commit)
        return os.path.join(root, "snapshots", commit)


def run_tests():
    unittest.main()


def json_of(done):
    return json.loads(done.stdout)
