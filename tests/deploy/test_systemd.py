"""The systemd unit: systemd finds no fault, says that little is exposed, its command is one that works, and, where a machine can be
started (systemd_machine.py), the server does everything that it should inside the sandbox."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from deploy_test import DeployTest, path, read, server_variables
from espalier_server import BINARY, MODEL, Background, free_port, random_inputs, wait_until
from test_tls import TestCa
import systemd_machine

sys.path.insert(0, path("tests", "hub"))
from hub_test import MINI, NAME  # noqa: E402
from model_hub import ModelHub  # noqa: E402

UNIT = path("configs", "espalier.service")


def settings():
    """[(name, value)] of the unit in order."""
    return [tuple(line.split("=", 1)) for line in read("configs", "espalier.service").splitlines() if re.match(r"[A-Z]\w*=", line)]


def setting(name):
    found = [value for key, value in settings() if key == name]
    assert len(found) == 1, (name, found)
    return found[0]


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|h)", text).groups()
    return int(number) * {"s": 1, "h": 3600}[unit]


def environment_of_the_unit():
    return dict(word.split("=", 1) for key, value in settings() if key == "Environment" for word in value.split())


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def analyze(*arguments):
    if shutil.which("systemd-analyze") is None:
        raise unittest.SkipTest("systemd-analyze is not installed")
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False)


class FileTest(DeployTest):
    def test_little_is_exposed(self):
        done = analyze("security", "--offline=true", "--no-pager", UNIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        exposure = float(re.search(r"Overall exposure level for espalier.service: ([\d.]+) OK", done.stdout).group(1))
        self.assertLessEqual(exposure, 1.5, done.stdout)

    def test_systemd_finds_no_fault(self):
        with tempfile.TemporaryDirectory() as folder:
            for command, text in ((f"{BINARY} serve", None), ("/no/such/espalier serve", "not executable")):
                changed = os.path.join(folder, "espalier.service")
                with open(changed, "w", encoding="utf-8") as file:
                    file.write(read("configs", "espalier.service").replace("ExecStart=espalier serve", f"ExecStart={command}"))
                done = analyze("verify", "--recursive-errors=no", changed)
                if text is None:
                    self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
                else:
                    self.assertIn(text, done.stderr)

    def test_its_variables_are_options_of_the_server(self):
        used = set(re.findall(r"\bESPALIER_\w+", read("configs", "espalier.service") + read("docs", "deploy", "systemd.md")))
        self.assertEqual(used - server_variables(), set())

    def test_accepted_requests_get_their_time(self):
        self.assertLess(int(environment_of_the_unit()["ESPALIER_DRAIN_TIMEOUT"]), seconds(setting("TimeoutStopSec")))

    def test_exit_codes_are_those_of_the_server(self):
        self.assertEqual(int(setting("SuccessExitStatus")), 128 + signal.SIGTERM)
        for port, code in (("x", int(setting("RestartPreventExitStatus"))), ("0", 1)):
            done = subprocess.run([BINARY, "serve", "--model", "/no/such"], env={**os.environ, "ESPALIER_PORT": port}, timeout=60,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, code)

    def test_it_is_installed_where_systemd_looks(self):
        with tempfile.TemporaryDirectory() as prefix:
            subprocess.run(["cmake", "--install", os.environ["ESPALIER_BUILD_DIR"], "--prefix", prefix], check=True, timeout=120,
                           capture_output=True)
            self.assertTrue(os.path.exists(os.path.join(prefix, "lib/systemd/system/espalier.service")))
            command, *arguments = setting("ExecStart").split()
            self.assertTrue(os.path.exists(os.path.join(prefix, "bin", command)))

    def test_its_command_works_with_its_environment(self):
        with tempfile.TemporaryDirectory() as cache, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(os.path.join(cache, "notify"))
            manager.settimeout(60)
            environment = {**os.environ, **environment_of_the_unit(), "ESPALIER_PORT": "0",
                           "NOTIFY_SOCKET": os.path.join(cache, "notify")}
            environment = {name: value.replace("%C", cache) for name, value in environment.items()}
            process = subprocess.Popen([BINARY, *setting("ExecStart").split()[1:]], env=environment, stderr=subprocess.DEVNULL)
            self.addCleanup(process.kill)
            heard = b""
            while b"READY=1" not in heard:
                heard = manager.recv(4096)
            process.terminate()
            self.assertEqual(process.wait(60), 0)


class SandboxTest(DeployTest):
    """One machine for all; the service starts anew in each test."""

    @classmethod
    def setUpClass(cls):
        if reason := systemd_machine.why_not():
            raise unittest.SkipTest(reason)
        cls.machine = systemd_machine.Machine(BINARY, MODEL, UNIT)
        cls.addClassCleanup(cls.machine.stop)

    def setUp(self):
        self.port = free_port()
        # A refused system call ends the process here; in the unit it is an error, which might go unnoticed.
        self.machine.drop_in("strict", "[Service]\nSystemCallErrorNumber=kill\n")
        self.options()
        self.addCleanup(self.reset)

    def reset(self):
        self.machine.systemctl("stop", check=False)
        self.machine.run("systemctl", "reset-failed", check=False)
        self.machine.drop_in("test", "")

    def options(self, **variables):
        lines = {"ESPALIER_PORT": self.port, **variables}
        self.machine.write("/etc/default/espalier", "".join(f"{name}={value}\n" for name, value in lines.items()))

    def request(self, where, body=None, key=None):
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{where}", body and json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def assert_serves(self):
        self.assertEqual(self.request("/readyz")[0], 200)
        status, body = self.request("/v1/embeddings", {"input": ["salt is a mineral", "salt is white"]})
        self.assertEqual(status, 200, body)
        self.assertEqual(len(json.loads(body)["data"]), 2)

    def test_it_is_ready_when_started_and_serves(self):
        self.machine.systemctl("start")
        self.assert_serves()
        self.assertIn("ready at http://127.0.0.1:", self.machine.property("StatusText"))
        for where in ("/", "/docs", "/metrics", "/v1/models", "/info"):
            self.assertEqual(self.request(where)[0], 200, where)
        self.assertEqual(self.request("/v1/embeddings", {"input": random_inputs(8, 500, 3)})[0], 200)
        self.assertEqual(self.request("/v1/rerank", {"query": "salt", "documents": ["salt", "water"]})[0], 200)
        self.machine.systemctl("stop")
        self.assertEqual((self.machine.property("ActiveState"), self.machine.property("Result")), ("inactive", "success"))
        self.assertIn("every request has been answered; goodbye", self.machine.journal())

    def test_it_can_do_little_else(self):
        self.machine.systemctl("start")
        process = self.machine.property("MainPID")
        status = self.machine.run("cat", f"/proc/{process}/status").stdout
        self.assertRegex(status, r"CapBnd:\s0+\n")
        self.assertRegex(status, r"NoNewPrivs:\s1\n")
        self.assertNotRegex(status, r"Uid:\s0")
        inside = ("nsenter", "--target", process, "--mount")
        for folder in ("/", "/etc", "/usr", "/root", "/var", "/home"):
            done = self.machine.run(*inside, "touch", f"{folder}/x", check=False)
            self.assertIn("Read-only file system", done.stderr)
        self.machine.run(*inside, "touch", "/var/cache/private/espalier/x", "/tmp/x")
        self.assertFalse(self.machine.run("ls", "/tmp/x", check=False).stdout)

    def test_memory_and_cpus_are_seen_from_within(self):
        self.machine.systemctl("start")
        self.assertRegex(self.machine.journal(), r"the (machine's available memory|control group's limit) is [\d.]+ GB")

    def test_requests_under_way_are_answered_when_it_stops(self):
        self.options(ESPALIER_THREADS=1)
        self.machine.systemctl("start")
        running = Background(lambda: self.request("/v1/embeddings", {"input": random_inputs(60, 2000, 5)}))
        wait_until(lambda: re.search(rb"^espalier_queue_tickets\S* [1-9]", self.request("/metrics")[1], re.MULTILINE), "work")
        self.machine.systemctl("stop")
        self.assertEqual(running.result()[0], 200)
        self.assertEqual(self.machine.property("Result"), "success")

    def test_a_reload_goes_by(self):
        self.machine.systemctl("start")
        process = self.machine.property("MainPID")
        self.machine.systemctl("reload")
        wait_until(lambda: "no certificate to read again" in self.machine.journal(), "the signal in the log")
        self.assertEqual(self.machine.property("MainPID"), process)
        self.assert_serves()

    def test_keys_come_as_credentials_that_the_service_alone_reads(self):
        lines = re.findall(r"^#((?:LoadCredential|Environment)=.*)$", read("configs", "espalier.service"), re.MULTILINE)
        self.assertEqual(len(lines), 2)
        self.machine.write("/etc/espalier/keys", "app 3f9d0c7e\n")
        self.machine.run("chmod", "600", "/etc/espalier/keys")
        self.machine.drop_in("test", "[Service]\n" + "\n".join(lines) + "\n")
        self.machine.systemctl("start")
        self.assertEqual(self.request("/v1/models")[0], 401)
        self.assertEqual(self.request("/v1/models", key="3f9d0c7e")[0], 200)
        self.machine.systemctl("stop")
        self.machine.run("rm", "/etc/espalier/keys")
        self.assertNotEqual(self.machine.systemctl("start", check=False).returncode, 0, "it must not serve everyone instead")

    def test_https_on_a_port_below_1024_as_the_page_says(self):
        port_lines, = re.findall(r"```\n(\[Service\]\nCapability.*?)```", read("docs", "deploy", "systemd.md"), re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            chain, key = TestCa(folder).certificate("server")
            for name, file in (("cert", chain), ("key", key)):
                with open(file, encoding="utf-8") as text:
                    self.machine.write(f"/etc/espalier/{name}.pem", text.read())
                self.machine.run("chmod", "600", f"/etc/espalier/{name}.pem")
            self.machine.drop_in("test", port_lines + "LoadCredential=cert:/etc/espalier/cert.pem\n"
                                 "LoadCredential=key:/etc/espalier/key.pem\n"
                                 "Environment=ESPALIER_TLS_CERT=%d/cert ESPALIER_TLS_KEY=%d/key\n")
            self.port = next(port for port in range(900, 1000) if is_free(port))
            self.options()
            self.machine.systemctl("start")
            with urllib.request.urlopen(f"https://localhost:{self.port}/readyz", timeout=60,
                                        context=ssl.create_default_context(cafile=f"{folder}/root.pem")) as answer:
                self.assertEqual(answer.status, 200)

    def test_a_model_is_fetched_into_the_cache_and_stays_there(self):
        hub = ModelHub()
        self.addCleanup(hub.close)
        hub.add(NAME, MINI)
        hub.pause = lambda _: 0.05  # seconds of loading, within which the unit is not started yet
        self.machine.write("/etc/hosts", "127.0.0.1 localhost\n")  # a name, to be looked up within the sandbox
        self.options(ESPALIER_MODEL=NAME, HF_ENDPOINT=hub.endpoint.replace("127.0.0.1", "localhost"))
        started = Background(lambda: self.machine.systemctl("start"))
        wait_until(lambda: self.machine.property("StatusText").startswith("loading models"), "the status")
        self.assertEqual(self.machine.property("ActiveState"), "activating")
        started.result()
        self.assert_serves()
        self.machine.systemctl("stop")
        self.options(ESPALIER_MODEL=NAME, HF_HUB_OFFLINE=1)
        self.machine.systemctl("start")
        self.assert_serves()

    def test_stopped_while_loading_is_no_failure(self):
        hub = ModelHub()
        self.addCleanup(hub.close)
        hub.add("espalier/slow", MINI)
        hub.pause = lambda _: 2
        self.options(ESPALIER_MODEL="espalier/slow", HF_ENDPOINT=hub.endpoint)
        started = Background(lambda: self.machine.systemctl("start", check=False))
        wait_until(lambda: self.machine.property("StatusText").startswith("loading models"), "the status")
        self.machine.systemctl("stop")
        started.result()
        self.assertEqual((self.machine.property("ActiveState"), self.machine.property("Result")), ("inactive", "success"))

    def test_failures_are_tried_again_but_mistakes_are_not(self):
        self.options(ESPALIER_MODEL="/no/such")
        self.assertNotEqual(self.machine.systemctl("start", check=False).returncode, 0)
        self.assertEqual(self.machine.property("SubState"), "auto-restart")
        self.machine.systemctl("stop")
        self.options(ESPALIER_MAX_QUEUE="many")
        self.assertNotEqual(self.machine.systemctl("start", check=False).returncode, 0)
        self.assertEqual(self.machine.property("ActiveState"), "failed")
        self.assertIn("ESPALIER_MAX_QUEUE", self.machine.journal())
        self.machine.run("systemctl", "reset-failed")
        self.options()
        self.machine.systemctl("start")
        os.kill(self.host_process(), signal.SIGKILL)
        wait_until(lambda: self.machine.property("SubState") == "auto-restart", "a restart after kill -9")

    def host_process(self):
        """The server's PID in this machine's namespace."""
        listed = subprocess.run(["pgrep", "-f", "^espalier serve$"], capture_output=True, text=True, check=False).stdout.split()
        inside = self.machine.property("MainPID")
        for process in listed:
            with open(f"/proc/{process}/status", encoding="utf-8") as status:
                if re.search(rf"^NSpid:.*\t{inside}$", status.read(), re.MULTILINE):
                    return int(process)
        raise AssertionError("the server's process was not found")

    def test_every_backend_works_but_for_the_one_that_writes_code(self):
        for gemm, dtype in (("native", "f32"), ("native", "bf16"), ("native", "int8"), ("openblas", "f32")):
            self.options(ESPALIER_GEMM=gemm, ESPALIER_DTYPE=dtype)
            self.machine.systemctl("restart")
            self.assert_serves()
        self.options(ESPALIER_GEMM="onednn", ESPALIER_DTYPE="f32")
        self.assertNotEqual(self.machine.systemctl("restart", check=False).returncode, 0)
        self.assertIn("choose the native backend", self.machine.journal())
        self.machine.drop_in("test", "[Service]\nMemoryDenyWriteExecute=no\n")
        self.machine.systemctl("restart")
        self.assert_serves()


if __name__ == "__main__":
    unittest.main()
