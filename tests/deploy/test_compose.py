"""The compose files: docker-compose accepts them, and what they name is there: options, files, ports, secrets, metrics.

No container is started here. docker-compose 1.29 is Debian's; its `config` checks a file against the schema of the Compose
specification and fills in variables."""

import functools
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

from deploy_test import ADMIN_PORT, ROOT, SERVER_PORT, DeployTest, path, proxy_variables, read, read_yaml, server_variables
from espalier_server import Server

FILES = ("compose.yaml", "compose.fleet.yaml")
PROXY_PORT, PROXY_METRICS_PORT = 8000, 8404


@functools.lru_cache(maxsize=None)
def compose(file, **variables):
    """The file as docker-compose understands it."""
    if shutil.which("docker-compose") is None:
        raise unittest.SkipTest("docker-compose is not installed: `tools/install-deps test` does that")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ESPALIER_", "HF_", "GRAFANA_"))}
    done = subprocess.run(["docker-compose", "-f", path("docker", file), "config"], env={**clean, **variables}, timeout=60,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return yaml.safe_load(done.stdout)


def is_server(service):
    return service["image"] == "espalier"


class ComposeTest(DeployTest):
    def services(self, **variables):
        """(file, name, service) of both files."""
        for file in FILES:
            for name, service in compose(file, **variables)["services"].items():
                yield file, name, service

    def test_a_mistake_would_be_found(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = os.path.join(folder, "compose.yaml")
            with open(broken, "w", encoding="utf-8") as file:
                file.write(read("docker", "compose.yaml").replace("read_only: true", "read_onlx: true"))
            with self.assertRaisesRegex(AssertionError, "read_onlx"):
                compose(broken)

    def test_every_option_is_one_that_the_server_or_the_proxy_has(self):
        servers, known = 0, server_variables()
        for file, name, service in self.services():
            options = {variable for variable in service.get("environment", {}) if variable.startswith("ESPALIER_")}
            if is_server(service):
                servers += 1
                self.assertIn("ESPALIER_API_KEY_FILE", options)
                self.assertEqual(options - known, set(), (file, name))
            else:
                self.assertEqual(options - proxy_variables(), set(), (file, name))
        self.assertEqual(servers, 1 + 3)

    def test_every_variable_is_explained_and_every_explained_one_is_used(self):
        explained = set()
        for file in FILES:
            text = read("docker", file)
            head = text[:text.index("\nservices:")] if file == "compose.yaml" else text[:text.index("\nx-")]
            explained |= set(re.findall(r"^#   .*?\b([A-Z]+_[A-Z_]+)\b", head, re.MULTILINE))
            explained |= set(re.findall(r"^#   [A-Z_]+, ([A-Z_]+)", head, re.MULTILINE))
            used = set(re.findall(r"\$\{([A-Z_]+)", text))
            self.assertEqual(used - explained, set(), file)
            page = read("docs", "deploy", "compose.md")
            self.assertEqual({name for name in used if name not in page}, set(), "not in docs/deploy/compose.md")

    def test_files_that_are_mounted_are_there(self):
        mounted = 0
        for file, name, service in self.services():
            for volume in service.get("volumes", []):
                source, target, mode = volume.split(":")
                if source.startswith("/"):
                    mounted += 1
                    self.assertTrue(os.path.exists(source), (file, name, source))
                    self.assertEqual(mode, "ro")
                elif is_server(service):
                    self.assertEqual(target, "/var/cache/espalier")
        self.assertEqual(mounted, 7)

    def test_everything_is_confined(self):
        for file, name, service in self.services():
            self.assertEqual(service["cap_drop"], ["ALL"], name)
            self.assertEqual(service["security_opt"], ["no-new-privileges:true"], name)
            self.assertEqual(service["restart"], "unless-stopped", name)
            self.assertEqual(set(service["logging"]["options"]), {"max-size", "max-file"}, name)
            self.assertNotIn("privileged", service)
            if name != "grafana":
                self.assertTrue(service["read_only"], name)

    def test_accepted_requests_get_their_time(self):
        for _, _, service in self.services():
            if is_server(service):
                grace = int(re.fullmatch(r"(\d+)s", service["stop_grace_period"]).group(1))
                self.assertLess(int(service["environment"]["ESPALIER_DRAIN_TIMEOUT"]), grace)

    def test_nothing_but_loopback_is_published_until_told_otherwise(self):
        published = {}
        for file, name, service in self.services():
            for port in service.get("ports", []):
                address, _, inside = port.removesuffix("/tcp").split(":")
                self.assertEqual(address, "127.0.0.1", (file, name))
                published[file, name] = int(inside)
        self.assertEqual(published, {("compose.yaml", "espalier"): SERVER_PORT, ("compose.fleet.yaml", "proxy"): PROXY_PORT,
                                     ("compose.fleet.yaml", "prometheus"): 9090, ("compose.fleet.yaml", "grafana"): 3000})
        ports = compose("compose.yaml", ESPALIER_PUBLISH="0.0.0.0:80")["services"]["espalier"]["ports"]
        self.assertEqual(ports, ["0.0.0.0:80:8080/tcp"])

    def test_secrets_are_files_that_the_commands_make(self):
        for file in FILES:
            made = set()
            command = read("docker", file)[:1200]
            for secret in re.findall(r">docker/secrets/(\w+)", command):
                made.add(path("docker", "secrets", secret))
            parsed = compose(file)
            self.assertEqual({secret["file"] for secret in parsed["secrets"].values()}, made, file)
            for service in parsed["services"].values():
                paths = {f"/run/secrets/{secret['source']}" for secret in service.get("secrets", [])}
                used = {value for value in service.get("environment", {}).values() if str(value).startswith("/run/secrets/")}
                self.assertEqual(used, paths)
        self.assertIn("docker/secrets/", read(".gitignore"))

    def test_the_commands_of_the_files_are_those_of_the_page(self):
        page = read("docs", "deploy", "compose.md")
        for file in FILES:
            commands = re.findall(r"^#   ((?:install|docker) .*)", read("docker", file), re.MULTILINE)
            self.assertEqual(len(commands), 2)
            for command in commands:
                self.assertIn(command, page)


class FirstUseTest(DeployTest):
    def test_the_key_file_of_the_first_command_is_one_that_the_server_takes(self):
        """The command itself is run, in another folder."""
        command = re.search(r"^#   (install .*)", read("docker", "compose.fleet.yaml"), re.MULTILINE).group(1)
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "docker"))
            subprocess.run(["bash", "-c", f"umask 077; {command}"], cwd=folder, check=True, timeout=60)
            secrets = os.path.join(folder, "docker", "secrets")
            self.assertEqual(os.stat(secrets).st_mode & 0o777, 0o700, "nobody else gets at the files")
            for name in ("keys", "grafana_password"):
                self.assertEqual(os.stat(os.path.join(secrets, name)).st_mode & 0o777, 0o644, "the container's user reads them")
            keys = os.path.join(secrets, "keys")
            server = Server("--api-key-file", keys)
            self.addCleanup(server.kill)
            with open(keys, encoding="utf-8") as file:
                key = file.read().split()[1]
            self.assertEqual(server.post("/v1/embeddings", {"input": "salt"}).status, 401)
            self.assertEqual(server.post("/v1/embeddings", {"input": "salt"}, {"Authorization": f"Bearer {key}"}).status, 200)
            server.stop()


class FleetFilesTest(DeployTest):
    """The parts of compose.fleet.yaml know each other."""

    def setUp(self):
        self.services = compose("compose.fleet.yaml")["services"]
        self.replicas = sorted(name for name, service in self.services.items() if is_server(service))

    def test_the_proxy_knows_the_replicas(self):
        environment = self.services["proxy"]["environment"]
        self.assertEqual([environment[f"ESPALIER_REPLICA_{number}"] for number in (1, 2, 3)],
                         [f"{name}:{SERVER_PORT}" for name in self.replicas])
        self.assertEqual(int(environment["ESPALIER_CHECK_PORT"]), ADMIN_PORT)
        for name in self.replicas:
            self.assertEqual(int(self.services[name]["environment"]["ESPALIER_ADMIN_PORT"]), ADMIN_PORT)
            self.assertNotIn("ports", self.services[name])
        proxy = read("configs", "haproxy.cfg")
        self.assertIn(f"{{ESPALIER_PROXY_BIND-*:{PROXY_PORT}}}", proxy)
        self.assertIn(f"{{ESPALIER_PROXY_STATS_BIND-*:{PROXY_METRICS_PORT}}}", proxy)

    def test_haproxy_accepts_its_configuration_with_this_environment(self):
        if shutil.which("haproxy") is None:
            self.skipTest("haproxy is not installed: `tools/install-deps test` does that")
        environment = {**os.environ, **{name: str(value) for name, value in self.services["proxy"]["environment"].items()}}
        done = subprocess.run(["haproxy", "-c", "-f", path("configs", "haproxy.cfg")], env=environment, capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("[WARNING]", done.stderr)

    def test_prometheus_scrapes_the_replicas_and_the_proxy(self):
        jobs = {job["job_name"]: job["static_configs"][0]["targets"]
                for job in read_yaml("docker", "prometheus.yml")["scrape_configs"]}
        self.assertEqual(jobs, {"espalier": [f"{name}:{ADMIN_PORT}" for name in self.replicas],
                                "haproxy": [f"proxy:{PROXY_METRICS_PORT}"]})
        networks = self.services["prometheus"]["networks"]
        for name in (*self.replicas, "proxy"):
            self.assertTrue(set(self.services[name]["networks"]) & set(networks), name)

    def test_promtool_accepts_what_prometheus_finds_in_its_container(self):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed: `tools/install-deps test` does that")
        with tempfile.TemporaryDirectory() as folder:
            for volume in self.services["prometheus"]["volumes"]:
                source, target, _ = volume.split(":")
                if target.startswith("/etc/prometheus/"):
                    shutil.copy(source, os.path.join(folder, os.path.basename(target)))
            done = subprocess.run(["promtool", "check", "config", os.path.join(folder, "prometheus.yml")], timeout=60,
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(re.findall(r"rules found", done.stdout)), 2)
        command = self.services["prometheus"]["command"]
        self.assertIn("--config.file=/etc/prometheus/prometheus.yml", command)

    def test_grafana_finds_prometheus_and_the_dashboards(self):
        targets = {volume.split(":")[1]: volume.split(":")[0] for volume in self.services["grafana"]["volumes"]}
        provisioning = os.path.relpath(targets["/etc/grafana/provisioning"], ROOT)
        source, = read_yaml(provisioning, "datasources", "prometheus.yaml")["datasources"]
        self.assertEqual((source["type"], source["url"], source["isDefault"]), ("prometheus", "http://prometheus:9090", True))
        self.assertTrue(set(self.services["grafana"]["networks"]) & set(self.services["prometheus"]["networks"]))
        provider, = read_yaml(provisioning, "dashboards", "espalier.yaml")["providers"]
        folder = provider["options"]["path"]
        dashboards = sorted(os.path.basename(file) for target, file in targets.items() if target.startswith(f"{folder}/"))
        self.assertEqual(dashboards, ["grafana-dashboard-fleet.json", "grafana-dashboard.json"])

    def test_replicas_have_limits_since_they_share_a_machine(self):
        for name in self.replicas:
            service = self.services[name]
            limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
            self.assertTrue(service.get("cpus") or limits.get("cpus"), name)
            self.assertTrue(service.get("mem_limit") or limits.get("memory"), name)


if __name__ == "__main__":
    unittest.main()
