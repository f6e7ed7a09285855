"""In a control group of little CPU and memory: as many threads as there are CPUs, memory predicted, models that cannot fit
refused with advice that works, and requests made to exhaust the memory answered rather than the server killed.

ESPALIER_LIMITS_SECONDS: how long each storm lasts (5). ESPALIER_LIMITS_MODEL and ESPALIER_LIMITS_MEMORY_MB: another
model than the bundled one, and the memory of its group (320 MiB).
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "http")]
from control_group import GROUPS, ControlGroup, has_version_2  # noqa: E402
from espalier_server import BINARY, MODEL, EspalierTest, Server, environment, time_limit, wait_until  # noqa: E402
from hostile_load import MEGABYTE, Storm, attacks  # noqa: E402

STORM_SECONDS = float(os.environ.get("ESPALIER_LIMITS_SECONDS", "5"))
STORM_MODEL = os.environ.get("ESPALIER_LIMITS_MODEL", MODEL)
STORM_MEMORY = int(os.environ.get("ESPALIER_LIMITS_MEMORY_MB", "320")) * MEGABYTE
CLIENTS = 32


def sanitized():
    with open(BINARY, "rb") as file:
        contents = file.read()
    return b"__asan_init" in contents or b"__tsan_init" in contents


def control_group(test, **limits):
    """One that is removed after the test; skips it where none can be made."""
    try:
        group = ControlGroup(**limits)
    except OSError as error:
        # systemd hands cpu and cpuset on only while a unit of its own asks for them.
        hint = f"; perhaps after: echo +cpu +cpuset +memory > {GROUPS}/cgroup.subtree_control" if has_version_2() else ""
        test.skipTest(f"may not make a control group: {error}{hint}")
    test.addCleanup(group.remove)
    return group


def in_group(group, *arguments, entered=(), stdin=""):
    """A command that ends by itself, run within `group`."""
    return subprocess.run([*entered, BINARY, *map(str, arguments)], env=environment(), capture_output=True, text=True,
                          input=stdin, preexec_fn=group.enter, timeout=time_limit(120), check=False)


def anonymous_bytes(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"RssAnon:\s+(\d+)", file.read()).group(1)) * 1024


class CpuTest(unittest.TestCase):
    def compute_threads(self, group, entered=()):
        done = in_group(group, "embed", "--model", MODEL, entered=entered, stdin='{"text": "a"}\n')
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(re.search(r"compute threads: (\d+)", done.stderr).group(1))

    def test_quotas(self):
        usable = len(os.sched_getaffinity(0))
        for cpus, threads in ((0.5, 1), (1, 1), (1.5, 2)):
            with self.subTest(cpus=cpus):
                group = control_group(self, cpus=cpus)
                self.assertEqual(self.compute_threads(group), min(threads, usable))

    def test_a_set_of_one_cpu_with_a_quota_of_four(self):
        group = control_group(self, cpus=4, cpuset=str(min(os.sched_getaffinity(0))))
        self.assertEqual(self.compute_threads(group), 1)

    def test_the_tightest_of_nested_groups(self):
        outer = control_group(self, cpus=1, memory_bytes=900 * MEGABYTE)
        inner = control_group(self, parent=outer)  # without limits of its own
        self.assertEqual(self.compute_threads(inner), 1)
        self.assertIn("943.7 MB  the control group's limit", in_group(inner, "inspect", "--model", MODEL).stdout)

    @unittest.skipUnless(shutil.which("unshare"), "namespaces, by unshare")
    def test_a_namespace_that_shows_the_group_as_the_root(self):
        group = control_group(self, cpus=1, memory_bytes=900 * MEGABYTE)
        # As container engines do: the mounts show what the namespace does.
        mounts = "; ".join(f"mount --bind {folder} {GROUPS}/{controller}"
                           for controller, folder in group.folders.items())
        if has_version_2():
            mounts = f"umount -l {GROUPS}; mount -t cgroup2 none {GROUPS}"
        script = f'set -e; {mounts}; exec "$@"'
        entered = ["unshare", "--mount", "--cgroup", "sh", "-c", script, "sh"]
        if subprocess.run([*entered, "true"], preexec_fn=group.enter, capture_output=True, check=False).returncode:
            self.skipTest("may not make namespaces of control groups")
        self.assertEqual(self.compute_threads(group, entered), 1)
        inspected = in_group(group, "inspect", "--model", MODEL, entered=entered).stdout
        self.assertIn("943.7 MB  the control group's limit", inspected)


@unittest.skipIf(sanitized(), "a sanitizer's shadow memory is not predicted")
class MemoryTest(EspalierTest):
    def predicted(self, group, dtype):
        """Bytes, as `inspect` says."""
        text = in_group(group, "inspect", "--model", MODEL, "--dtype", dtype).stdout
        return text, 1e6 * float(re.search(r"(?m)^memory +([\d.]+) MB when serving", text).group(1))

    def test_what_fits_in_int8_alone_is_refused_with_advice_that_works(self):
        group = control_group(self, cpus=1, memory_bytes=900 * MEGABYTE)
        text, int8_bytes = self.predicted(group, "int8")
        self.assertIn("943.7 MB  the control group's limit", text)
        group.limit_memory(int(int8_bytes + 34 * 1e6))
        refused = in_group(group, "serve", "--model", MODEL, "--port", 0, "--dtype", "f32")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertRegex(refused.stderr, r"is more than the control group's limit, \d+\.\d MB")
        advice = re.search(r"; (--dtype int8) would need ([\d.]+) MB and fit", refused.stderr)
        self.assertIsNotNone(advice, refused.stderr)
        self.assertAlmostEqual(float(advice.group(2)), int8_bytes / 1e6, delta=0.2)
        server = Server(*advice.group(1).split(), preexec_fn=group.enter)
        self.addCleanup(server.kill)
        predicted = re.search(r"memory: predicted ([\d.]+) MB", server.log_text()).group(1)
        self.assertAlmostEqual(float(predicted), int8_bytes / 1e6, delta=0.2)
        for _ in range(4):  # of the largest batches
            reply = server.post("/v1/embeddings", {"input": [[i, 7 * i % 8000, 9] for i in range(1, 1366)],
                                                   "encoding_format": "base64"})
            self.assertEqual(reply.status, 200, reply)
        self.assertEqual(group.kills(), 0)
        server.stop()


@unittest.skipIf(sanitized(), "a sanitizer takes several times the memory")
class StormTest(EspalierTest):
    """Nothing that clients send ends the server, or another's request."""

    def storm(self, *options, kinds=None, clients=CLIENTS, model=STORM_MODEL, name="any"):
        group = control_group(self, cpus=1, memory_bytes=STORM_MEMORY)
        server = Server("--access-log", "off", *options, model=model, preexec_fn=group.enter)
        self.addCleanup(server.kill)
        server.post("/v1/embeddings", {"input": "a", "model": name})
        quiet = anonymous_bytes(server)
        storm = Storm(server.port, kinds or attacks(8 * MEGABYTE), clients)
        honest = []
        peak = 0
        end = time.monotonic() + time_limit(STORM_SECONDS)
        while time.monotonic() < end:
            self.assertEqual(group.kills(), 0, f"killed; the storm so far: {storm.outcomes}")
            with contextlib.suppress(TimeoutError):
                honest.append(server.request("POST", "/v1/embeddings", {"input": "honest", "model": name},
                                             seconds_max=30).status)
            peak = max(peak, anonymous_bytes(server))
            time.sleep(0.05)
        storm.stop()
        statuses = storm.statuses()
        print(f"{' '.join(options)}: {quiet >> 20} MiB, at most {peak >> 20}, with page cache {group.memory_peak() >> 20} "
              f"of {STORM_MEMORY >> 20}; at its limit {group.times_at_limit()} times; {dict(statuses)}; "
              f"honest {dict((s, honest.count(s)) for s in set(honest))}", file=sys.stderr)
        self.assertEqual(group.kills(), 0)
        self.assertIsNone(server.process.poll())
        # Whoever is turned away is told why, and by a status that says whose fault it is.
        self.assertLessEqual(set(statuses), {0, 200, 400, 413, 429, 504}, storm.outcomes)
        unanswered = [outcome for outcome in storm.outcomes if outcome[1] == 0 and outcome[2] != "abandoned"]
        self.assertEqual(unanswered, [])
        self.assertTrue(all(message for _, status, message in storm.outcomes if status not in (0, 200)))
        self.assertGreater(sum(statuses.values()), clients)
        self.assertIn(200, honest)
        self.assertLessEqual(set(honest), {200, 429})
        # What requests took comes back.
        wait_until(lambda: anonymous_bytes(server) < quiet + 0.15 * STORM_MEMORY,
                   f"of {quiet >> 20} MiB there are {anonymous_bytes(server) >> 20} after the storm", 30)
        self.assertEqual(server.post("/v1/embeddings", {"input": "a", "model": name}).status, 200)
        self.assertNotIn("out of memory", server.log_text())
        server.stop()

    def test_everything_at_once(self):
        self.storm()

    def test_the_worst_trees(self):
        kinds = attacks(8 * MEGABYTE)
        self.storm(kinds={name: kinds[name] for name in ("tiny lists", "tiny strings", "tiny objects", "nested objects")})

    def test_the_largest_answers(self):
        kinds = attacks(8 * MEGABYTE)
        names = [name for name in kinds if "embeddings" in name or "token" in name or name == "tries"]
        self.storm("--dedup", "off", kinds={name: kinds[name] for name in names})

    def test_bodies_of_the_largest_size(self):
        kinds = attacks(STORM_MEMORY // 32)
        self.storm(kinds={name: kinds[name] for name in ("numbers", "one long text", "gzip", "deflate", "half a body")})

    def test_radixmlp_and_two_models(self):
        self.storm("--dedup", "radixmlp", "--model", f"other={MODEL}", model=f"first={STORM_MODEL}",
                   kinds=attacks(8 * MEGABYTE, model="first"), name="first")


if __name__ == "__main__":
    unittest.main()
