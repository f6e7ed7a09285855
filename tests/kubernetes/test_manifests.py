"""What schemas cannot say of configs/kubernetes: that names, ports, times and sizes fit together in every rendering."""

import functools
import re
import unittest

from manifests import (CONFIGS, containers, matches, of_kind, only, pod_templates, quantity, renderings,
                       skip_without_renderer, variables)

# Made by the operator, as docs/deploy/kubernetes.md says; both components name them.
SECRETS_OF_THE_OPERATOR = {"espalier-hub", "espalier-api-keys"}
SERVICE_LINKS = "enableServiceLinks"


def seconds_before_the_kill(template):
    """(preStop, the drain that the server is told, the grace period)"""
    container = template["spec"]["containers"][0]
    drains = re.findall(r"--drain-timeout=(\d+)", " ".join(container.get("args", [])))
    return (container["lifecycle"]["preStop"]["sleep"]["seconds"], int(drains[0]) if drains else None,
            template["spec"]["terminationGracePeriodSeconds"])


def restricted_faults(spec):
    """What Kubernetes' Pod Security Standard "restricted" (v1.34) refuses of a pod's specification."""
    faults = [f"{field} shares the node's" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    kinds = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    faults += [f"volume {volume['name']}" for volume in spec.get("volumes", []) if not set(volume) <= kinds | {"name"}]
    pod = spec.get("securityContext", {})
    if "sysctls" in pod:
        faults.append("sysctls")
    for container in spec.get("initContainers", []) + spec["containers"]:
        own = {**{key: pod[key] for key in ("runAsNonRoot", "runAsUser", "seccompProfile") if key in pod},
               **container.get("securityContext", {})}
        rules = {
            "runAsNonRoot": own.get("runAsNonRoot") is True,
            "runAsUser": own.get("runAsUser") != 0,
            "seccompProfile": own.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "privileged": not own.get("privileged"),
            "capabilities.drop": "ALL" in own.get("capabilities", {}).get("drop", []),
            "capabilities.add": set(own.get("capabilities", {}).get("add", [])) <= {"NET_BIND_SERVICE"},
            "procMount": own.get("procMount", "Default") == "Default",
            "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
        }
        faults += [f"{container['name']}: {rule}" for rule, holds in rules.items() if not holds]
    return faults


def for_every_rendering(test):
    @functools.wraps(test)
    def run(self):
        for name, objects in self.renderings:
            with self.subTest(name):
                test(self, objects)
    return run


class RenderingsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.renderings = renderings()

    def selected(self, objects, selector):
        return [template for _, template in pod_templates(objects) if matches(selector, template["metadata"]["labels"])]

    def port_names(self, template):
        return {port["name"]: port["containerPort"] for container in containers(template)
                for port in container.get("ports", [])}

    @for_every_rendering
    def test_nothing_is_there_twice(self, objects):
        names = [(item["kind"], item["metadata"]["name"]) for item in objects]
        self.assertEqual(len(names), len(set(names)), sorted(names))

    @for_every_rendering
    def test_everything_is_in_the_namespace(self, objects):
        self.assertEqual({item["metadata"].get("namespace") for item in objects}, {"espalier"})

    # Names and ports ----------------------------------------------------------------------------------------------

    @for_every_rendering
    def test_selectors_select_the_pods_of_one_deployment_or_job(self, objects):
        for item in of_kind(objects, "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"):
            spec = item["spec"]
            selector = {"matchLabels": spec["selector"]} if item["kind"] == "Service" else \
                spec.get("podSelector") or spec["selector"]
            self.assertEqual(len(self.selected(objects, selector)), 1, f"{item['kind']}/{item['metadata']['name']}")
        for _, template in pod_templates(objects):
            for constraint in template["spec"].get("topologySpreadConstraints", []):
                self.assertEqual(self.selected(objects, constraint["labelSelector"]), [template])

    @for_every_rendering
    def test_a_deployment_selects_its_own_pods(self, objects):
        for item in of_kind(objects, "Deployment"):
            self.assertEqual(self.selected(objects, item["spec"]["selector"]), [item["spec"]["template"]])

    @for_every_rendering
    def test_ports_of_services_policies_and_monitors_are_ports_of_the_pods(self, objects):
        for service in of_kind(objects, "Service"):
            pods, = self.selected(objects, {"matchLabels": service["spec"]["selector"]})
            for port in service["spec"]["ports"]:
                self.assertEqual(self.port_names(pods).get(port["targetPort"]), port["port"], service["metadata"]["name"])
        for policy in of_kind(objects, "NetworkPolicy"):
            pods, = self.selected(objects, policy["spec"]["podSelector"])
            for rule in policy["spec"].get("ingress", []):
                self.assertLessEqual({port["port"] for port in rule["ports"]}, set(self.port_names(pods)))
            for rule in policy["spec"].get("egress", []):
                for peer in (peer["podSelector"] for peer in rule["to"] if "podSelector" in peer):
                    targets, = self.selected(objects, peer)
                    self.assertLessEqual({port["port"] for port in rule["ports"]}, set(self.port_names(targets)))

    @for_every_rendering
    def test_every_deployments_pods_are_scraped_under_the_job_that_alerts_know(self, objects):
        for monitor in of_kind(objects, "PodMonitor"):
            pods = self.selected(objects, monitor["spec"]["selector"])
            jobs = {}
            for endpoint in monitor["spec"]["podMetricsEndpoints"]:
                relabeling, = endpoint["relabelings"]
                self.assertEqual(relabeling["targetLabel"], "job")
                for template in pods:
                    if endpoint["port"] in self.port_names(template):
                        jobs[template["metadata"]["labels"]["app.kubernetes.io/component"]] = relabeling["replacement"]
            expected = {"server": ("espalier", "prometheus-alerts.yaml"), "router": ("haproxy", "prometheus-alerts-fleet.yaml")}
            deployed = {item["metadata"]["labels"]["app.kubernetes.io/component"] for item in of_kind(objects, "Deployment")}
            self.assertEqual(jobs, {component: expected[component][0] for component in deployed})
            for job, alerts in expected.values():
                self.assertIn(f'up{{job="{job}"}}', (CONFIGS / alerts).read_text("utf-8"))

    @for_every_rendering
    def test_every_way_out_has_its_way_in(self, objects):
        """Where one pod may go to another, the other lets it in."""
        policies = of_kind(objects, "NetworkPolicy")
        for policy in policies:
            source, = self.selected(objects, policy["spec"]["podSelector"])
            for rule in policy["spec"].get("egress", []):
                for peer in (peer["podSelector"] for peer in rule["to"] if "podSelector" in peer):
                    target, = self.selected(objects, peer)
                    let_in = {port["port"] for other in policies
                              if matches(other["spec"]["podSelector"], target["metadata"]["labels"])
                              for entry in other["spec"].get("ingress", [])
                              if any(matches(sender.get("podSelector", {"matchLabels": {"": ""}}),
                                             source["metadata"]["labels"]) for sender in entry["from"])
                              for port in entry["ports"]}
                    self.assertLessEqual({port["port"] for port in rule["ports"]}, let_in)

    @for_every_rendering
    def test_whoever_may_name_the_client_is_the_only_one_who_gets_in(self, objects):
        server = only(objects, "Deployment", "espalier")["spec"]["template"]
        trusted = variables(objects, server["spec"]["containers"][0]).get("ESPALIER_TRUSTED_PROXY")
        senders = [sender for policy in of_kind(objects, "NetworkPolicy")
                   if matches(policy["spec"]["podSelector"], server["metadata"]["labels"])
                   for rule in policy["spec"].get("ingress", []) if "http" in (port["port"] for port in rule["ports"])
                   for sender in rule["from"]]
        routers = [sender for sender in senders if sender.get("podSelector", {}).get("matchLabels", {}).get(
            "app.kubernetes.io/component") == "router"]
        if trusted:
            self.assertEqual((trusted, senders), ("private", routers))
            self.assertEqual(len(routers), 1)
        else:
            self.assertEqual((len(senders), routers), (2, []), "labelled pods, and those of labelled namespaces")

    @for_every_rendering
    def test_only_what_asks_the_hub_reaches_beyond_the_cluster(self, objects):
        outside = [policy for policy in of_kind(objects, "NetworkPolicy") for rule in policy["spec"].get("egress", [])
                   if any(peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0" for peer in rule["to"])]
        server = only(objects, "Deployment", "espalier")["spec"]["template"]
        settings = variables(objects, server["spec"]["containers"][0])
        for policy in outside:
            pods, = self.selected(objects, policy["spec"]["podSelector"])
            self.assertEqual(pods is server, settings.get("HF_HUB_OFFLINE") != "1")
        needs_hub = "ESPALIER_MODEL" in settings
        self.assertEqual(len(outside), 1 if needs_hub else 0)

    @for_every_rendering
    def test_probes_name_ports_of_their_container(self, objects):
        for item in of_kind(objects, "Deployment"):
            container, = item["spec"]["template"]["spec"]["containers"]
            ports = {port["name"] for port in container["ports"]}
            probes = {kind: container[kind + "Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")
                      if kind + "Probe" in container}
            self.assertEqual(probes["readiness"]["path"], "/readyz")
            self.assertEqual(probes["liveness"]["path"], "/livez", "a pod that drains is not to be killed")
            for probe in probes.values():
                self.assertIn(probe["port"], ports)

    @for_every_rendering
    def test_whatever_is_mounted_or_read_exists(self, objects):
        named = {(item["kind"], item["metadata"]["name"]) for item in objects}
        for _, template in pod_templates(objects):
            spec = template["spec"]
            self.assertIn(("ServiceAccount", spec["serviceAccountName"]), named)
            for volume in spec.get("volumes", []):
                if "configMap" in volume:
                    self.assertIn(("ConfigMap", volume["configMap"]["name"]), named)
                if "persistentVolumeClaim" in volume:
                    self.assertIn(("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]), named)
                if "secret" in volume:
                    self.assertIn(volume["secret"]["secretName"], SECRETS_OF_THE_OPERATOR)
            for container in containers(template):
                self.assertEqual({mount["name"] for mount in container.get("volumeMounts", [])},
                                 {volume["name"] for volume in spec.get("volumes", [])})
                for source in container.get("envFrom", []):
                    self.assertIn(("ConfigMap", source["configMapRef"]["name"]), named)
                for entry in container.get("env", []):
                    if "secretKeyRef" in entry.get("valueFrom", {}):
                        self.assertIn(entry["valueFrom"]["secretKeyRef"]["name"], SECRETS_OF_THE_OPERATOR)

    # Security -----------------------------------------------------------------------------------------------------

    @for_every_rendering
    def test_pods_meet_the_restricted_standard_and_more(self, objects):
        for item, template in pod_templates(objects):
            spec, name = template["spec"], item["metadata"]["name"]
            self.assertEqual(restricted_faults(spec), [], name)
            self.assertIs(spec["automountServiceAccountToken"], False, name)
            for container in containers(template):
                self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True, name)
                if container["image"].startswith("espalier"):
                    context = spec["securityContext"]
                    self.assertEqual([context[key] for key in ("runAsUser", "runAsGroup", "fsGroup")], [10001] * 3)

    def test_the_standards_rules_find_their_faults(self):
        self.assertEqual(restricted_faults({"containers": [{"name": "x", "securityContext": {
            "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]}}}]}), [])
        loose = {"hostNetwork": True, "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
                 "containers": [{"name": "x", "ports": [{"hostPort": 1}], "securityContext": {
                     "runAsUser": 0, "privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}}]}
        self.assertEqual(len(restricted_faults(loose)), 2 + 8)

    @for_every_rendering
    def test_kubernetes_adds_no_variables_of_its_own(self, objects):
        """For a Service called espalier it would set ESPALIER_PORT, which is an option."""
        for _, template in pod_templates(objects):
            self.assertIs(template["spec"][SERVICE_LINKS], False)

    # Times and sizes ----------------------------------------------------------------------------------------------

    @for_every_rendering
    def test_a_pod_may_drain_before_it_is_killed(self, objects):
        before, drain, grace = seconds_before_the_kill(only(objects, "Deployment", "espalier")["spec"]["template"])
        self.assertGreaterEqual(before, 2, "endpoints are withdrawn by then")
        self.assertGreater(grace, before + drain)
        for router in (item for item in of_kind(objects, "Deployment") if item["metadata"]["name"] != "espalier"):
            its_before, _, its_grace = seconds_before_the_kill(router["spec"]["template"])
            self.assertGreater(its_grace, its_before + drain, "it passes on what the servers still answer")

    @for_every_rendering
    def test_an_update_takes_nothing_away_and_waits_for_the_start(self, objects):
        spec = only(objects, "Deployment", "espalier")["spec"]
        self.assertEqual(spec["strategy"]["rollingUpdate"], {"maxSurge": 1, "maxUnavailable": 0})
        probe = spec["template"]["spec"]["containers"][0]["startupProbe"]
        self.assertGreater(spec["progressDeadlineSeconds"], probe["periodSeconds"] * probe["failureThreshold"])

    @for_every_rendering
    def test_requests_are_limits(self, objects):
        for item, template in pod_templates(objects):
            for container in containers(template):
                resources = container["resources"]
                self.assertEqual(resources["requests"]["memory"], resources["limits"]["memory"], item["metadata"]["name"])
                if container["image"].startswith("espalier"):
                    self.assertEqual(resources["requests"], resources["limits"], item["metadata"]["name"])
                    self.assertEqual(quantity(resources["limits"]["cpu"]) % 1, 0, "threads are whole")

    @for_every_rendering
    def test_the_nodes_disk_holds_what_the_pod_may_write(self, objects):
        template = only(objects, "Deployment", "espalier")["spec"]["template"]
        local = [volume["emptyDir"] for volume in template["spec"]["volumes"] if "emptyDir" in volume]
        requested = quantity(template["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"])
        self.assertGreaterEqual(requested, sum(quantity(volume["sizeLimit"]) for volume in local))

    @for_every_rendering
    def test_the_routers_memory_holds_its_connections_buffers(self, objects):
        bufsize = int(re.search(r"\{ESPALIER_PROXY_BUFFER_BYTES-(\d+)\}",
                                (CONFIGS / "haproxy.cfg").read_text(encoding="utf-8")).group(1))
        for item in of_kind(objects, "Deployment"):
            container, = item["spec"]["template"]["spec"]["containers"]
            if container["name"] != "haproxy":
                continue
            settings = variables(objects, container)
            needed = 3 * bufsize * int(settings["ESPALIER_PROXY_CONNECTIONS"])
            self.assertGreater(quantity(container["resources"]["limits"]["memory"]), needed + 100 * 2**20)

    # Options, scaling ---------------------------------------------------------------------------------------------

    @for_every_rendering
    def test_the_router_finds_the_servers(self, objects):
        configuration = (CONFIGS / "haproxy.cfg").read_text(encoding="utf-8")
        for item in of_kind(objects, "Deployment"):
            container, = item["spec"]["template"]["spec"]["containers"]
            if container["name"] != "haproxy":
                continue
            settings = variables(objects, container)
            for name in (name for name in settings if name.startswith("ESPALIER_")):
                self.assertRegex(configuration, rf"(?m)^[^#\n]*\b{name}\b")
            service, port = re.fullmatch(r"([a-z-]+)\.\$\(NAMESPACE\)\.svc\.cluster\.local:(\d+)",
                                         settings["ESPALIER_REPLICAS_DNS"]).groups()
            headless = only(objects, "Service", service)
            self.assertEqual(headless["spec"]["clusterIP"], "None")
            ports = {entry["name"]: str(entry["port"]) for entry in headless["spec"]["ports"]}
            self.assertEqual((ports["http"], ports["admin"]), (port, settings["ESPALIER_CHECK_PORT"]))
            for port in container["ports"]:
                self.assertIn(f"*:{port['containerPort']}", configuration)
            for scaled in of_kind(objects, "ScaledObject"):
                self.assertGreater(int(settings["ESPALIER_REPLICAS_MAX"]), scaled["spec"]["maxReplicaCount"])
            data = only(objects, "ConfigMap", "espalier-haproxy")["data"]
            self.assertEqual(data, {"haproxy.cfg": configuration})

    @for_every_rendering
    def test_the_autoscaler_scales_the_server_which_leaves_it_the_number(self, objects):
        deployment = only(objects, "Deployment", "espalier")
        scaled = of_kind(objects, "ScaledObject")
        self.assertEqual("replicas" in deployment["spec"], not scaled)
        for item in scaled:
            spec = item["spec"]
            self.assertEqual(spec["scaleTargetRef"]["name"], deployment["metadata"]["name"])
            self.assertLess(1, spec["minReplicaCount"])
            self.assertLessEqual(spec["minReplicaCount"], spec["fallback"]["replicas"])
            self.assertLess(spec["fallback"]["replicas"], spec["maxReplicaCount"] + 1)
            for rules in spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"].values():
                # KEDA's schema takes any text; the HorizontalPodAutoscaler that it makes does not.
                self.assertLessEqual({policy["type"] for policy in rules["policies"]}, {"Pods", "Percent"})
            for trigger in spec["triggers"]:
                self.assertEqual(set(trigger["metadata"]), {"serverAddress", "query", "threshold", "ignoreNullValues"},
                                 "the parameters of KEDA's Prometheus scaler")
                self.assertEqual(set(re.findall(r'namespace="([^"]*)"', trigger["metadata"]["query"])), {"espalier"})

    @for_every_rendering
    def test_a_model_has_a_replica_to_spare(self, objects):
        self.assertGreaterEqual(only(objects, "Deployment", "espalier")["spec"].get("replicas", 2), 2)


class HashTest(unittest.TestCase):
    def test_other_options_and_another_haproxy_cfg_get_other_names(self):
        """So that a change of them is rolled out."""
        objects = dict(renderings())["qwen3-embedding-0.6b+haproxy"]
        for name in ("espalier-options", "espalier-haproxy"):
            self.assertRegex(only(objects, "ConfigMap", name)["metadata"]["name"], rf"^{name}-[0-9a-z]{{10}}$")


if __name__ == "__main__":
    skip_without_renderer()
    unittest.main()
