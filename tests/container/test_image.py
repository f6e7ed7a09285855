"""The image: docker/Dockerfile built for real and run with nothing that a server does not need. CTest's 77 says why
where a machine cannot."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "http"), os.path.join(HERE, "..", "hub")]
import image as image_of  # noqa: E402
from container import CACHE, Bundle, Container, run_in, run_tests, system_calls  # noqa: E402
from espalier_server import MODEL, free_port, json_lines, random_inputs, run_espalier, wait_until  # noqa: E402
from model_hub import ModelHub, folder_files  # noqa: E402

BYTES_MAX = 150 << 20
ANYONE = (1_234_567, 0)  # as OpenShift runs images: any user, group 0
BUNDLED = "/usr/share/espalier/models/espalier-mini"
TEXTS = ["a tree trained to grow flat", "salt"]


IMAGE = None  # run_tests() gives it


class ContainerTest(unittest.TestCase):
    def start(self, *command, **settings):
        """A server in a container, by default as the image starts it but for its port."""
        port = free_port()
        settings["env"] = {"ESPALIER_PORT": str(port), "ESPALIER_DTYPE": "f32", **settings.get("env", {})}
        server = Container(IMAGE, command, **settings)
        self.addCleanup(server.close)
        server.port = port
        return server


class ContentTest(unittest.TestCase):
    """What is in it, without running it."""

    def test_it_is_small(self):
        model = IMAGE.bytes("." + BUNDLED)
        self.assertGreater(model, 5 << 20)
        self.assertLess(IMAGE.bytes(), BYTES_MAX, "with the bundled model")

    def test_what_it_says_of_itself(self):
        config = IMAGE.config
        self.assertEqual(config["Entrypoint"], ["espalier"])
        self.assertEqual(config["Cmd"], ["serve", "--host", "0.0.0.0"])
        self.assertEqual(config["User"], "10001:10001")
        self.assertEqual(config["StopSignal"], "SIGTERM")
        self.assertEqual(set(config["ExposedPorts"]), {"8080/tcp", "9090/tcp"})
        self.assertEqual(set(config["Volumes"]), {CACHE})
        self.assertLessEqual({f"HF_HOME={CACHE}", "ESPALIER_HOST=0.0.0.0"}, set(config["Env"]))
        self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "espalier", "health"])
        self.assertGreaterEqual(config["Healthcheck"]["StartPeriod"], 600e9)  # a large model is fetched and loaded
        labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
        self.assertEqual(labels["title"], "espalier")
        self.assertEqual(labels["revision"], IMAGE.commit)
        version = run_espalier("--version").stdout.split()[1]
        self.assertEqual(labels["version"], version)
        self.assertTrue(labels["description"])

    def test_there_is_a_shell_and_no_package_manager(self):
        for program in ("sh", "sleep", "id", "ls", "cat", "espalier"):
            self.assertTrue(os.access(f"{IMAGE.root}/usr/bin/{program}", os.X_OK), program)
        for program in ("apt-get", "dpkg", "perl", "gcc", "su", "mount", "curl"):
            self.assertFalse(os.path.lexists(f"{IMAGE.root}/usr/bin/{program}"), program)

    def test_no_program_gives_its_owners_rights_and_none_but_tmp_is_open_to_all(self):
        open_to_all = set()
        for folder, folders, files in os.walk(IMAGE.root):
            for path in (os.path.join(folder, name) for name in folders + files):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode):
                    self.assertFalse(status.st_mode & (stat.S_ISUID | stat.S_ISGID), path)
                if status.st_mode & stat.S_IWOTH and not stat.S_ISLNK(status.st_mode):
                    open_to_all.add(os.path.relpath(path, IMAGE.root))
                if status.st_uid or status.st_gid:
                    self.assertIn(os.path.relpath(path, IMAGE.root), {CACHE[1:], "etc/shadow", "etc/gshadow"})
        self.assertLessEqual(open_to_all, {"tmp", "var/tmp"})

    def test_no_link_leads_nowhere_that_a_server_follows(self):
        for folder in ("usr/bin", "usr/lib/x86_64-linux-gnu", "etc/ssl"):
            for parent, _, files in os.walk(f"{IMAGE.root}/{folder}"):
                for path in (os.path.join(parent, name) for name in files):
                    if os.path.islink(path):
                        target = os.readlink(path)
                        target = f"{IMAGE.root}{target}" if target.startswith("/") else os.path.join(parent, target)
                        self.assertTrue(os.path.lexists(target), path)

    def test_scanners_find_the_packages(self):
        with open(f"{IMAGE.root}/var/lib/dpkg/status", encoding="utf-8") as file:
            records = [record for record in file.read().split("\n\n") if record.strip()]
        names = {re.search(r"(?m)^Package: (\S+)$", record).group(1) for record in records}
        for record in records:
            self.assertRegex(record, r"(?m)^Version: \S+$")
            self.assertIn("Status: install ok installed", record)
        self.assertLessEqual({"libc6", "libssl3", "libdnnl2", "libicu72", "ca-certificates", "coreutils"}, names)
        self.assertNotIn("libopenblas0-pthread", names)
        with open(f"{IMAGE.root}/etc/debian_version", encoding="utf-8") as file:
            self.assertRegex(file.read(), r"^12\.")
        libraries = f"{IMAGE.root}/usr/lib/x86_64-linux-gnu"
        with open(f"{IMAGE.root}/var/lib/dpkg/info/libdnnl2:amd64.list", encoding="utf-8") as file:
            self.assertIn("/usr/lib/x86_64-linux-gnu/libdnnl.so.2", file.read().split("\n"))
        self.assertTrue(os.path.exists(f"{libraries}/libdnnl.so.2"))
        self.assertTrue(os.path.exists(f"{IMAGE.root}/usr/share/doc/libdnnl2/copyright"))

    def test_the_bundled_model_is_there_without_what_trained_it(self):
        self.assertTrue(os.path.exists(f"{IMAGE.root}{BUNDLED}/model.safetensors"))
        for name in ("training", "golden.json", "eval_results.json"):
            self.assertFalse(os.path.lexists(f"{IMAGE.root}{BUNDLED}/{name}"), name)


class RunTest(ContainerTest):
    """With a read-only root, no capabilities, no new privileges and the engines' list of system calls."""

    def test_it_serves(self):
        server = self.start()
        self.assertEqual(server.embed(TEXTS).shape, (2, 256))
        self.assertEqual(server.rerank("what is salt", TEXTS).shape, (2,))
        outside = run_espalier("embed", "--model", MODEL, stdin=json_lines({"text": text} for text in TEXTS))
        for line, row in zip(outside.stdout.splitlines(), server.embed(TEXTS)):
            self.assertLess(max(abs(a - b) for a, b in zip(json.loads(line)["embedding"], row)), 1e-6)

        self.assertEqual(server.execute("id").stdout, "uid=10001(espalier) gid=10001(espalier) groups=10001(espalier)\n")
        refused = server.execute("sh", "-c", "echo a > /tmp/a")
        self.assertIn("Read-only file system", refused.stderr)
        first = server.execute("cat", "/proc/1/status").stdout
        for expected in (r"Name:\s+espalier", r"Uid:\s+10001\s+10001\s+10001\s+10001", r"CapEff:\s+0+", r"CapBnd:\s+0+",
                         r"NoNewPrivs:\s+1", r"Seccomp:\s+2" if system_calls() else r"Threads:\s+\d+"):
            self.assertRegex(first, rf"(?m)^{expected}$")
        self.assertEqual(server.execute("sleep", "0.1").returncode, 0)  # a preStop hook's
        server.stop()

    def test_health(self):
        admin = free_port()
        server = self.start(env={"ESPALIER_ADMIN_PORT": str(admin), "ESPALIER_THREADS": "1",
                                 "ESPALIER_MAX_BATCH_TOKENS": "2048"})
        check = IMAGE.config["Healthcheck"]["Test"][1:]
        done = server.execute(*check)
        self.assertEqual((done.returncode, done.stdout), (0, f"ready: http://127.0.0.1:{admin}/readyz\n"), done.stderr)
        done = server.execute(*check, env={"ESPALIER_ADMIN_PORT": str(free_port())})
        self.assertEqual(done.returncode, 1)
        self.assertIn("is the server running?", done.stderr)

        # SIGTERM: not ready any more, but what was accepted is answered, and the container ends with 0.
        busy = server.in_background("/v1/embeddings", {"input": random_inputs(12, 2000, seed=3)})
        metrics = f"http://127.0.0.1:{admin}/metrics"
        wait_until(lambda: b"espalier_queue_tickets 0\n" not in subprocess.run(
            ["curl", "-s", metrics], stdout=subprocess.PIPE, check=True).stdout, "the request in the queue")
        server.send_signal()
        wait_until(lambda: "draining" in server.execute(*check).stderr, "the drain")
        self.assertTrue(busy.running(), "the request was done before the drain was seen")
        self.assertEqual(busy.result().status, 200)
        self.assertEqual(server.wait(), 0, server.log_text())

    def test_the_grace_period_ends_a_request_that_takes_longer(self):
        server = self.start(env={"ESPALIER_DRAIN_TIMEOUT": "1", "ESPALIER_THREADS": "1"})
        busy = server.in_background("/v1/embeddings", {"input": random_inputs(200, 2000, seed=4)})
        wait_until(lambda: server.waiting() > 0, "the request in the queue")
        start = time.monotonic()
        server.send_signal()
        self.assertEqual(busy.result().status, 503)
        self.assertEqual(server.wait(), 0, server.log_text())
        self.assertLess(time.monotonic() - start, 10)

    def test_sigterm_ends_it_while_it_loads(self):
        """The first process of a container gets only signals that it has asked for."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        model = os.path.join(folder, "model")
        shutil.copytree(MODEL, model, ignore=shutil.ignore_patterns("training", "eval*", "golden.json"))
        os.remove(os.path.join(model, "tokenizer.json"))
        os.mkfifo(os.path.join(model, "tokenizer.json"), 0o644)  # nobody writes it
        server = self.start(wait=False, volumes=[(model, "/srv")], env={"ESPALIER_MODEL": "/srv"})
        wait_until(lambda: "loading" in server.execute("espalier", "health").stderr, "the server loads")
        server.send_signal()
        self.assertEqual(server.wait(10), 128 + 15, server.log_text())

    def test_any_user_may_run_it(self):
        server = self.start(user=ANYONE)
        self.assertEqual(server.execute("id", "-u").stdout, f"{ANYONE[0]}\n")
        self.assertEqual(server.embed(TEXTS).shape, (2, 256))
        self.assertEqual(server.execute("espalier", "health").returncode, 0)
        server.stop()


    @unittest.skipUnless(os.path.exists("/proc/net/if_inet6"), "this machine has no IPv6")
    def test_the_address_is_a_variable_too(self):
        """`docker run -e ESPALIER_HOST=:: IMAGE serve`: the health check asks where the server listens."""
        server = self.start("serve", env={"ESPALIER_HOST": "::"})
        self.assertEqual(server.execute("espalier", "health").stdout, f"ready: http://[::1]:{server.port}/readyz\n")
        server.stop()


class CacheTest(ContainerTest):
    """Models by name: fetched into the volume, and used from one that is read-only."""

    NAME = "espalier/mini"

    def check(self, user):
        hub = ModelHub()
        self.addCleanup(hub.close)
        hub.add(self.NAME, folder_files(MODEL, skip=("training", "golden", "eval_", "README", "LICENSE")))
        env = {"HF_ENDPOINT": hub.endpoint, "ESPALIER_MODEL": self.NAME}
        first = Bundle(IMAGE, user=user)  # for its cache
        self.addCleanup(first.close)
        server = self.start(user=user, env=env, cache=first.cache)
        expected = server.embed(TEXTS)
        server.stop()
        self.assertTrue(os.path.isdir(os.path.join(first.cache, "hub", "models--espalier--mini", "snapshots")))
        hub.forget()
        server = self.start(user=user, env={**env, "HF_HUB_OFFLINE": "1"}, cache=first.cache, read_only_cache=True)
        self.assertTrue((server.embed(TEXTS) == expected).all())
        server.stop()
        self.assertEqual(hub.requests, [])

    def test_the_images_user(self):
        self.check(None)

    def test_any_user(self):
        self.check(ANYONE)

    def test_a_cache_that_cannot_be_written_is_named(self):
        with ModelHub() as hub:
            hub.add(self.NAME, {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"a" * 1000})
            done = run_in(IMAGE, "download", self.NAME, env={"HF_ENDPOINT": hub.endpoint}, read_only_cache=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(CACHE, done.stderr)


class CommandTest(unittest.TestCase):
    """`docker run IMAGE command`"""

    def test_the_version_names_the_commit(self):
        done = run_in(IMAGE, "--version")
        self.assertIn(f"(commit {IMAGE.commit})", done.stdout)

    def test_other_commands(self):
        done = run_in(IMAGE, "inspect")
        self.assertIn(BUNDLED, done.stdout, done.stderr)
        stdin = json_lines({"text": text} for text in TEXTS)
        done = run_in(IMAGE, "tokenize", stdin=stdin)
        self.assertEqual(done.stdout, run_espalier("tokenize", "--model", MODEL, stdin=stdin).stdout)
        done = run_in(IMAGE, "models")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_backend_that_is_not_in_the_image_is_named(self):
        done = run_in(IMAGE, "inspect", "--gemm", "openblas", "--dtype", "f32")
        self.assertEqual(done.returncode, 1)
        self.assertIn("libopenblas0-pthread", done.stderr)


if __name__ == "__main__":
    run_tests(image_of.build, "buildah", "debootstrap", "curl")
