"""docs/deploy/kubernetes.md: its files render, its commands make what the pods mount, its table says what is requested."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml

from manifests import KUBERNETES, RENDERER, ROOT, OVERLAYS, of_kind, only, render, render_folder, skip_without_renderer, variables
from test_schemas import faults

GUIDE = (ROOT / "docs" / "deploy" / "kubernetes.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def shell(command, folder):
    done = subprocess.run(["bash", "-euc", command], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stderr}")
    return done.stdout


class GuideTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        (self.folder / "espalier").symlink_to(ROOT)

    def rendered(self, text):
        (self.folder / "kustomization.yaml").write_text(text, encoding="utf-8")
        return render_folder(self.folder)

    def test_its_kustomizations_render(self):
        first, second = map(self.rendered, blocks("yaml"))
        for objects in (first, second):
            self.assertEqual([found for found in faults(objects) if found], [])
            images = {container["image"] for item in of_kind(objects, "Deployment", "Job")
                      for container in item["spec"]["template"]["spec"]["containers"]}
            self.assertLessEqual(images, {"registry.example.com/espalier:0.1", "haproxy:2.6"})
        server, = only(first, "Deployment", "espalier")["spec"]["template"]["spec"]["containers"]
        self.assertEqual(variables(first, server)["ESPALIER_MAX_BATCH_MS"], "500")
        self.assertEqual(variables(first, server)["ESPALIER_MODEL"], "Qwen/Qwen3-Embedding-0.6B")
        claim = only(second, "PersistentVolumeClaim", "espalier-models")
        self.assertEqual(claim["spec"]["storageClassName"], "nfs")

    def test_a_plain_overlay_renders_too(self):
        for overlay in OVERLAYS:
            self.assertIn("Deployment", {item["kind"] for item in render_folder(KUBERNETES / "overlays" / overlay)})

    @unittest.skipUnless(RENDERER and RENDERER[0] == "kubectl", "kubectl is not installed")
    def test_its_commands_make_the_secrets_that_are_mounted(self):
        commands = re.findall(r"^kubectl .* create .*$|^kubectl create .*$", "\n".join(blocks("sh")), re.MULTILINE)
        self.assertEqual(len(commands), 3)
        for name in ("keys.txt", "token.txt"):
            (self.folder / name).write_text("x\n", encoding="ascii")
        made = [yaml.safe_load(shell(f"{command} --dry-run=client -o yaml", self.folder)) for command in commands]
        secrets = {item["metadata"]["name"]: set(item["data"]) for item in made if item["kind"] == "Secret"}
        objects = render("qwen3-embedding-0.6b", "api-keys")
        spec = only(objects, "Deployment", "espalier")["spec"]["template"]["spec"]
        server, = spec["containers"]
        token, = (entry["valueFrom"]["secretKeyRef"] for entry in server["env"] if entry["name"] == "HF_TOKEN")
        self.assertIn(token["key"], secrets[token["name"]])
        mount, = (mount for mount in server["volumeMounts"] if mount["name"] == "api-keys")
        volume, = (volume["secret"] for volume in spec["volumes"] if volume["name"] == "api-keys")
        directory, file = variables(objects, server)["ESPALIER_API_KEY_FILE"].rsplit("/", 1)
        self.assertEqual(mount["mountPath"], directory)
        self.assertIn(file, secrets[volume["secretName"]])

    def test_the_prometheus_rules_are_valid_and_whole(self):
        command, = (block for block in blocks("sh") if "PrometheusRule" in block)
        rules = list(yaml.safe_load_all(shell(command.rsplit("|", 1)[0], self.folder)))
        self.assertEqual(faults(rules), [[], []])
        self.assertEqual(len({rule["metadata"]["name"] for rule in rules}), 2)
        for rule, file in zip(rules, ("prometheus-alerts.yaml", "prometheus-alerts-fleet.yaml")):
            self.assertEqual(rule["spec"], yaml.safe_load((ROOT / "configs" / file).read_text("utf-8")))

    def test_its_table_is_what_overlays_request(self):
        rows = {row[0]: row[1:] for row in re.findall(r"^\| `([a-z0-9.-]+)` \| .* \| (\S+) \| (\S+) \| (\S+) \|$", GUIDE, re.MULTILINE)}
        self.assertEqual(sorted(rows), OVERLAYS)
        for overlay, row in rows.items():
            server, = only(render(overlay), "Deployment", "espalier")["spec"]["template"]["spec"]["containers"]
            requests = server["resources"]["requests"]
            self.assertEqual(row, (requests["cpu"], requests["memory"], requests["ephemeral-storage"]), overlay)

    def test_every_overlay_and_component_is_in_it(self):
        for folder in [*KUBERNETES.glob("overlays/*"), *KUBERNETES.glob("components/*")]:
            self.assertIn(folder.name, GUIDE)


if __name__ == "__main__":
    skip_without_renderer()
    unittest.main()
