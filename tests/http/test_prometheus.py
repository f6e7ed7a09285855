"""Prometheus reads what the server shows: promtool finds no fault, a real Prometheus scrapes it, and every metric of the
dashboard and the alert rules is there, before the first request too.

The programs are Debian's package `prometheus` (tools/install-deps test)."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

from espalier_server import EspalierTest, Server, time_limit, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONFIGS = os.path.join(ROOT, "configs")
ALERTS = os.path.join(CONFIGS, "prometheus-alerts.yaml")
ALERT_TESTS = os.path.join(ROOT, "tests", "http", "prometheus_alerts_test.yaml")
METRIC = re.compile(r"\b(?:espalier|process)_[a-z_]+|\bup\b")
SUFFIXES = ("_bucket", "_sum", "_count")
HOSTILE_KEYS = b'shop secret-1\n"quo\\ted"{} secret-2\n\xff\xfe secret-3\n'


def setUpModule():
    missing = [program for program in ("prometheus", "promtool") if shutil.which(program) is None]
    if missing:
        raise AssertionError(f"{' and '.join(missing)} not found: install Debian's package `prometheus` "
                             "(`tools/install-deps test` does), or put the programs into PATH")


def promtool(*arguments, stdin=""):
    return subprocess.run(["promtool", *arguments], input=stdin, capture_output=True, text=True, timeout=time_limit(60),
                          check=False)


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def dashboard(file="grafana-dashboard.json"):
    return json.loads(read("configs", file))


def dashboard_queries(file="grafana-dashboard.json"):
    """What Grafana would ask, with everything selected."""
    for panel in dashboard(file)["panels"]:
        for target in panel.get("targets", []):
            query = re.sub(r"\$(job|instance|proxy)\b", ".*", target["expr"])
            yield panel["title"], query.replace("$__rate_interval", "1m")


def placed_queries(test, file="grafana-dashboard.json"):
    """[(panel's title, PromQL)]; `test` fails where panels overlap, or ask another source than the chosen one."""
    panels, taken, found = dashboard(file)["panels"], set(), []
    test.assertEqual(len({panel["id"] for panel in panels}), len(panels))
    for panel in panels:
        place = panel["gridPos"]
        test.assertLessEqual(place["x"] + place["w"], 24)
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        test.assertFalse(cells & taken, panel["title"])
        taken |= cells
        if panel["type"] != "row":
            test.assertTrue(panel["targets"], panel["title"])
            for target in panel["targets"]:
                test.assertEqual(target["datasource"], {"type": "prometheus", "uid": "${datasource}"})
                found.append((panel["title"], target["expr"]))
    return found


def metrics_in(text):
    """Names of metrics in PromQL; grouping labels and strings are none of them."""
    return set(METRIC.findall(re.sub(r'"[^"]*"', "", text)))


def alert_expressions(file="prometheus-alerts.yaml"):
    """{alert: its PromQL}. The rules are simple YAML, and Debian's Python has no parser for it."""
    rules = re.split(r"^ *- alert: *", read("configs", file), flags=re.MULTILINE)[1:]
    found = {}
    for rule in rules:
        name, rest = rule.split("\n", 1)
        found[name.strip()] = re.search(r"expr:(.*?)\n {8}(?:for|labels):", rest, re.DOTALL).group(1)
    return found


def families(exposition):
    return set(re.findall(r"^# TYPE (\S+) ", exposition, re.MULTILINE))


def family_of(name, known):
    for suffix in SUFFIXES:
        if name.endswith(suffix) and name[:-len(suffix)] in known:
            return name[:-len(suffix)]
    return name


class RulesTest(unittest.TestCase):
    def assert_promtool(self, *arguments):
        done = promtool(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_rules_and_configuration_are_sound(self):
        self.assertIn(f"{len(alert_expressions())} rules found", self.assert_promtool("check", "rules", ALERTS))
        self.assert_promtool("check", "config", os.path.join(CONFIGS, "prometheus.yml"))

    def test_alerts_fire_when_they_should_and_not_otherwise(self):
        self.assert_promtool("test", "rules", ALERT_TESTS)

    def test_a_broken_rule_would_be_found(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as broken:
            broken.write(read("configs", "prometheus-alerts.yaml").replace("expr: up{", "expr: up}{"))
            broken.flush()
            self.assertNotEqual(promtool("check", "rules", broken.name).returncode, 0)

    def test_every_alert_is_tested_and_explained(self):
        tests = read("tests", "http", "prometheus_alerts_test.yaml")
        operations = read("docs", "OPERATIONS.md")
        self.assertGreater(len(alert_expressions()), 8)
        for alert in alert_expressions():
            self.assertIn(f"alertname: {alert}}}", tests, "silent when all is well")
            self.assertIn(f'alertname="{alert}"', tests, "fires when it is not")
            self.assertRegex(operations, rf"(?m)^### {alert}$")


class DashboardTest(unittest.TestCase):
    def test_every_panel_has_its_place_and_asks_the_chosen_source(self):
        for _, query in placed_queries(self):
            self.assertIn('instance=~"$instance"', query)
        self.assertEqual([variable["name"] for variable in dashboard()["templating"]["list"]],
                         ["datasource", "job", "instance"])


class ServerWithKeysTest(EspalierTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        keys = os.path.join(cls.folder.name, "keys")
        with open(keys, "wb") as file:
            file.write(HOSTILE_KEYS)
        cls.server = cls.start("--api-key-file", keys)

    def exposition(self):
        reply = self.server.get("/metrics")
        self.assertEqual(reply.status, 200)
        return reply.body.decode()  # UTF-8, or Prometheus refuses all of it

    def traffic(self):
        headers = {"Authorization": "Bearer secret-1"}
        for count in (1, 3, 40):
            texts = [f"a text that others begin like, number {number}" for number in range(count)]
            self.assertEqual(self.server.post("/v1/embeddings", {"input": texts}, headers).status, 200)
        reply = self.server.post("/v1/rerank", {"query": "salt", "documents": ["salt", "water"]}, headers)
        self.assertEqual(reply.status, 200)
        self.assertEqual(self.server.post("/v1/rerank", {"query": 5}, headers).status, 400)
        self.assertEqual(self.server.post("/v1/rerank", {}).status, 401)
        self.server.get("/nowhere")


class ExpositionTest(ServerWithKeysTest):
    def test_every_metric_of_dashboard_and_alerts_is_there_before_traffic(self):
        text = Server.get(self.start(), "/metrics").body.decode()
        with_keys = self.exposition()
        known = families(with_keys)
        self.assertEqual({name for name in known - families(text) if not name.startswith("espalier_key_")}, set())
        sources = [("dashboard", query) for _, query in dashboard_queries()] + list(alert_expressions().items())
        used = {name: source for source, query in sources for name in metrics_in(query)}
        self.assertGreater(len(used), 45)
        for name, source in sorted(used.items()):
            if name == "up":
                continue  # Prometheus' own
            self.assertIn(family_of(name, known), known, source)
            self.assertRegex(with_keys, rf"(?m)^{name}[{{ ]", source)

    def test_promtool_finds_no_fault(self):
        for _ in range(2):  # before traffic and after it
            done = promtool("check", "metrics", stdin=self.exposition())
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            self.traffic()
        done = promtool("check", "metrics", stdin="# TYPE espalier_total gauge\nespalier_total 1\n")
        self.assertNotEqual(done.returncode, 0, "promtool finds nothing at all")

    def test_every_metric_is_documented(self):
        documented = set(re.findall(r"`((?:espalier|process)_[a-z_]+)", read("docs", "API.md")))
        shown = families(self.exposition())
        self.assertEqual(shown - documented, set(), "not in docs/API.md")
        self.assertEqual(documented - shown, set(), "in docs/API.md alone")


class Prometheus:
    """A Prometheus of our own with the configuration `config`, a file's text, in which `places` (there, here) are replaced; it
    scrapes `targets` targets every half second."""

    def __init__(self, config, places, folder, targets=1):
        self.targets = targets
        for there, here in (("scrape_interval: 15s", "scrape_interval: 500ms"),
                            ("evaluation_interval: 15s", "evaluation_interval: 500ms"), *places):
            assert there in config, there
            config = config.replace(there, here)
        path = os.path.join(folder, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self.log = os.path.join(folder, "prometheus.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder}/data", "--log.level=warn",
                 f"--web.listen-address={self.url[7:]}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ask(self, path, **parameters):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}",
                                    timeout=time_limit(30)) as answer:
            body = json.load(answer)
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def is_up(self):
        if self.process.poll() is not None:
            with open(self.log, encoding="utf-8") as log:
                raise AssertionError(f"prometheus ended with {self.process.returncode}:\n{log.read()}")
        try:
            return [sample["value"][1] for sample in self.query("up")] == ["1"] * self.targets
        except (urllib.error.URLError, ConnectionError):
            return False

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(time_limit(20))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class ScrapeTest(ServerWithKeysTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        places = (("127.0.0.1:8080", f"127.0.0.1:{cls.server.port}"), ("- prometheus-alerts.yaml", f"- {ALERTS}"))
        cls.prometheus = Prometheus(read("configs", "prometheus.yml"), places, cls.folder.name)
        cls.addClassCleanup(cls.prometheus.stop)
        wait_until(cls.prometheus.is_up, "Prometheus scraping the server", 60)

    def test_everything_that_is_shown_arrives(self):
        def computed():
            return [float(sample["value"][1]) for sample in self.prometheus.query("espalier_sequences_total")]

        before = self.server.metric("espalier_sequences_total")
        self.traffic()
        wait_until(lambda: computed() == [before + 46], "46 inputs more in Prometheus")
        names = set(self.prometheus.ask("label/__name__/values"))
        shown = set(re.findall(r"^([a-z_]+)[{ ]", self.exposition(), re.MULTILINE))
        self.assertGreater(len(shown), 60)
        self.assertEqual(shown - names, set())
        keys = {sample["metric"]["key"] for sample in self.prometheus.query("espalier_key_tokens_total")}
        self.assertEqual(keys, {"shop", '"quo\\ted"{}', "\ufffd\ufffd"})
        self.assertTrue(self.prometheus.is_up())

    def test_every_panel_shows_something(self):
        self.traffic()
        for title, query in dashboard_queries():
            wait_until(lambda query=query: self.prometheus.query(query), f"{title}: {query}", 10)
        for variable in dashboard()["templating"]["list"][1:]:
            metric, label = re.fullmatch(r"label_values\((\w+).*, (\w+)\)", variable["query"]["query"]).groups()
            self.assertEqual(len(self.prometheus.ask(f"label/{label}/values", **{"match[]": metric})), 1)

    def test_alert_rules_run_and_none_fires(self):
        def rules():
            found = [rule for group in self.prometheus.ask("rules")["groups"] for rule in group["rules"]]
            return found if found and all(rule["health"] != "unknown" for rule in found) else None

        evaluated = wait_until(rules, "rules evaluated")
        self.assertEqual({rule["name"] for rule in evaluated}, set(alert_expressions()))
        for rule in evaluated:
            self.assertEqual(rule["health"], "ok", rule)
            self.assertEqual(rule["state"], "inactive", rule)


if __name__ == "__main__":
    unittest.main()
