"""Prometheus and HAProxy as in docker/compose.fleet.yaml, but on loopback: three real servers, the same configuration files with other
addresses. Every target is up, every panel of the fleet's dashboard shows something, and the alerts tell of a replica that is gone."""

import os
import re
import shutil
import sys
import tempfile
import unittest

from deploy_test import ADMIN_PORT, DeployTest, path, read, read_yaml
from espalier_server import EspalierTest, wait_until
from test_prometheus import ALERTS, Prometheus, alert_expressions, dashboard, dashboard_queries, placed_queries, promtool

sys.path.insert(0, path("tests", "fleet"))
from fleet import Fleet  # noqa: E402

FLEET_ALERTS = "prometheus-alerts-fleet.yaml"
FLEET_DASHBOARD = "grafana-dashboard-fleet.json"
KEY = "3f9d0c7e"


def setUpModule():
    missing = [program for program in ("prometheus", "promtool") if shutil.which(program) is None]
    if missing:
        raise unittest.SkipTest(f"{' and '.join(missing)} not found: `tools/install-deps test` installs them")


class RulesTest(DeployTest):
    def test_rules_are_sound_and_fire_when_they_should(self):
        for arguments in (("check", "rules", path("configs", FLEET_ALERTS)),
                          ("test", "rules", path("tests", "deploy", "prometheus_alerts_fleet_test.yaml"))):
            done = promtool(*arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_alert_is_tested_and_explained(self):
        tests = read("tests", "deploy", "prometheus_alerts_fleet_test.yaml")
        rules = read_yaml("configs", FLEET_ALERTS)["groups"][0]["rules"]
        self.assertEqual({rule["alert"] for rule in rules}, set(alert_expressions(FLEET_ALERTS)))
        for rule in rules:
            self.assertIn(f"alertname: {rule['alert']}}}", tests, "silent when all is well")
            self.assertIn(f'alertname="{rule["alert"]}"', tests, "fires when it is not")
            self.assert_anchor(rule["annotations"]["runbook"])
            self.assertTrue(rule["annotations"]["runbook"].endswith(f"#{rule['alert'].lower()}"))


class DashboardTest(DeployTest):
    def test_every_panel_has_its_place_and_asks_the_chosen_source(self):
        for title, query in placed_queries(self, FLEET_DASHBOARD):
            chosen = 'job=~"$job"' if re.search(r"\b(espalier|process)_", query) else 'instance=~"$proxy"'
            self.assertIn(chosen, query, title)
        self.assertNotEqual(dashboard(FLEET_DASHBOARD)["uid"], dashboard()["uid"])


class FleetTest(EspalierTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        keys = os.path.join(folder.name, "keys")
        with open(keys, "w", encoding="utf-8") as file:
            file.write(f"app {KEY}\n")
        cls.fleet = Fleet(cls, 3, options=("--threads", "1", "--api-key-file", keys))
        places = [(f"replica-{number}:{ADMIN_PORT}", f"127.0.0.1:{replica.admin_port}")
                  for number, replica in enumerate(cls.fleet.replicas, 1)]
        places += [("proxy:8404", f"127.0.0.1:{cls.fleet.proxy.stats_port}"), ("- prometheus-alerts.yaml", f"- {ALERTS}"),
                   (f"- {FLEET_ALERTS}", f"- {path('configs', FLEET_ALERTS)}")]
        cls.prometheus = Prometheus(read("docker", "prometheus.yml"), places, folder.name, targets=4)
        cls.addClassCleanup(cls.prometheus.stop)
        wait_until(cls.prometheus.is_up, "Prometheus scraping three servers and the proxy", 60)

    def traffic(self):
        for number in range(12):
            for where, body in (("/v1/rerank", {"query": f"what is {number}", "documents": ["salt", "water"]}),
                                ("/v1/embeddings", {"input": f"number {number}"})):
                self.assertEqual(self.fleet.proxy.post(where, body, {"Authorization": f"Bearer {KEY}"}).status, 200)

    def alerts(self):
        """{alert: its state} of all rules once they were evaluated."""
        rules = [rule for group in self.prometheus.ask("rules")["groups"] for rule in group["rules"]]
        self.assertEqual({rule["name"] for rule in rules}, set(alert_expressions()) | set(alert_expressions(FLEET_ALERTS)))
        if any(rule["health"] == "unknown" for rule in rules):
            return None
        self.assertEqual([rule for rule in rules if rule["health"] != "ok"], [])
        return {rule["name"]: rule["state"] for rule in rules}

    def test_1_every_panel_of_both_dashboards_shows_something(self):
        self.traffic()
        queries = [*dashboard_queries(FLEET_DASHBOARD), *dashboard_queries()]
        self.assertGreater(len(queries), 60)
        for title, query in queries:
            wait_until(lambda query=query: self.prometheus.query(query), f"{title}: {query}", 15)
        for variable in dashboard(FLEET_DASHBOARD)["templating"]["list"][1:]:
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()
            self.assertEqual(len(self.prometheus.ask(f"label/{label}/values", **{"match[]": metric})), 1, variable["name"])
        # The proxy and the servers count the same.
        for query in ('sum(haproxy_server_http_responses_total{code="2xx",proxy=~"by_prefix|by_load"})',
                      'sum(espalier_requests_total{status="200",route=~"/v1/.*"})'):
            wait_until(lambda query=query: self.prometheus.query(query)[0]["value"][1] == "24", f"24 of {query}", 10)

    def test_2_alerts_are_silent_while_all_is_well(self):
        states = wait_until(self.alerts, "rules evaluated")
        self.assertEqual({name for name, state in states.items() if state != "inactive"}, set())

    def test_3_a_replica_that_is_gone_is_noticed_and_no_client_sees_it(self):
        self.fleet.replicas[0].kill()
        self.traffic()
        pending = wait_until(lambda: {name for name, state in (self.alerts() or {}).items() if state != "inactive"}
                             >= {"EspalierDown", "EspalierReplicaDown"} and self.alerts(), "both alerts")
        self.assertEqual(pending["EspalierNoReplica"], "inactive")
        self.assertEqual(pending["EspalierProxyErrors"], "inactive")

    def test_4_no_replica_at_all_is_noticed(self):
        for replica in self.fleet.replicas[1:]:
            replica.kill()
        wait_until(lambda: self.fleet.proxy.get("/v1/models").status == 503, "the proxy's own answer")
        wait_until(lambda: (self.alerts() or {}).get("EspalierNoReplica") == "pending", "the alert")


if __name__ == "__main__":
    unittest.main()
