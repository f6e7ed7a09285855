"""Everything that configs/kubernetes renders, held against Kubernetes' and the operators' schemas; unknown fields fail."""

import copy
import json
import os
import subprocess
import unittest

from manifests import renderings, skip_without_renderer

# Maps: their keys are the user's, not the schema's.
MAPS = {"labels", "matchLabels", "annotations", "data", "requests", "limits", "selector", "nodeSelector"}


def faults(objects):
    """A list of texts for each object."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "validate.mjs")
    done = subprocess.run(["node", script], input=json.dumps(objects), capture_output=True, text=True, timeout=120,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def distinct(objects):
    """By content: most renderings have most objects in common."""
    return list({json.dumps(item, sort_keys=True): item for item in objects}.values())


def misspelt(value, path=()):
    """Copies of `value`, each with one field's name changed: (its path, the copy)."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            for where, changed in misspelt(entry, (*path, str(index))):
                yield where, [*value[:index], changed, *value[index + 1:]]
    elif isinstance(value, dict):
        for key, entry in value.items():
            is_map = path and (path[-1] in MAPS or path[-3:-2] == ("triggers",) and path[-1] == "metadata")
            if not is_map and key not in ("apiVersion", "kind"):
                changed = {name: copy.deepcopy(other) for name, other in value.items() if name != key}
                changed[key + "Z"] = entry
                yield (*path, key + "Z"), changed
            for where, changed in misspelt(entry, (*path, key)):
                yield where, {**value, key: changed}


class SchemaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.objects = distinct(item for _, objects in renderings() for item in objects)

    def test_every_object_is_valid(self):
        for item, found in zip(self.objects, faults(self.objects)):
            self.assertEqual(found, [], f"{item['kind']}/{item['metadata']['name']}")
        kinds = {item["kind"] for item in self.objects}
        self.assertLessEqual({"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ScaledObject", "PodMonitor",
                              "PersistentVolumeClaim", "Job", "ConfigMap", "ServiceAccount"}, kinds)

    def test_every_misspelt_field_is_found(self):
        cases, owners = [], []
        for kind in sorted({item["kind"] for item in self.objects}):
            # The largest of its kind has the most fields.
            largest = max((item for item in self.objects if item["kind"] == kind), key=lambda item: len(json.dumps(item)))
            for path, changed in misspelt(largest):
                cases.append(changed)
                owners.append((kind, "/" + "/".join(path)))
        self.assertGreater(len(cases), 200)
        for (kind, path), found in zip(owners, faults(cases)):
            self.assertIn(f"{path}: unknown field", found, kind)

    def test_values_of_a_wrong_type_are_found(self):
        deployment = copy.deepcopy(next(item for item in self.objects if item["kind"] == "Deployment"))
        deployment["spec"]["replicas"] = "two"
        deployment["spec"]["template"]["spec"]["containers"][0]["ports"] = {}
        self.assertEqual(len(faults([deployment])[0]), 2)

    def test_a_kind_without_a_schema_is_named(self):
        self.assertEqual(faults([{"apiVersion": "example.com/v1", "kind": "Wish", "metadata": {"name": "x"}}]),
                         [["there is no schema of example.com/v1 Wish"]])


if __name__ == "__main__":
    skip_without_renderer()
    unittest.main()
