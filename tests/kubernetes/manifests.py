"""Renders configs/kubernetes for the tests: with kubectl or kustomize, whichever is installed.

    objects = render("qwen3-embedding-0.6b", "autoscaling", "haproxy")     # an overlay and components on top of it
    deployment = only(objects, "Deployment", "espalier")
"""

import functools
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs"
KUBERNETES = CONFIGS / "kubernetes"
NAMESPACE = "espalier"
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
# components/hub is part of the overlays that need it.
COMPONENTS = sorted(path.name for path in (KUBERNETES / "components").iterdir() if path.name != "hub")

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SKIPPED = 77  # CTest's SKIP_RETURN_CODE


def renderer():
    """The command that renders a folder; None without any. kustomize before 5 knows other fields."""
    for command in (["kubectl", "kustomize"], ["kustomize", "build"]):
        if shutil.which(command[0]) is None:
            continue
        version = subprocess.run([command[0], "version", *(["--client"] if command[0] == "kubectl" else [])],
                                 capture_output=True, text=True, check=False).stdout
        if "v5." in version or "v6." in version:
            return command
    return None


RENDERER = renderer()


def skip_without_renderer():
    """For the __main__ of tests: nothing here can be said without kustomize."""
    if RENDERER is None:
        print("skipped: neither kubectl (1.27 or later) nor kustomize (5 or later) is installed")
        sys.exit(SKIPPED)


def render_folder(folder):
    done = subprocess.run([*RENDERER, str(folder)], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{folder} does not render:\n{done.stderr}")
    return [document for document in yaml.load_all(done.stdout, LOADER) if document]


def render_text(kustomization):
    """What a kustomization.yaml with these fields renders, as if it were beside the checkout; paths are relative to the
    checkout's root."""
    # Not below configs/: kustomize takes no folder that contains the one which names it.
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder).resolve()
        for field in ("resources", "components"):
            kustomization[field] = [os.path.relpath(ROOT / path, here) for path in kustomization.get(field, [])]
        (here / "kustomization.yaml").write_text(json.dumps(kustomization), encoding="utf-8")
        return render_folder(here)


@functools.lru_cache(maxsize=None)
def render(overlay, *components):
    """The objects of an overlay with components, in the namespace NAMESPACE, and with the ConfigMaps of configs/."""
    return render_text({"namespace": NAMESPACE,
                        "resources": [f"configs/kubernetes/overlays/{overlay}"],
                        "components": [f"configs/kubernetes/components/{name}" for name in components] + ["configs"]})


def renderings():
    """[(name, objects)]: every overlay plain, with each component, with all; one of them with every choice."""
    some = [()] + [(name,) for name in COMPONENTS] + [tuple(COMPONENTS)]
    every = [choice for size in range(len(COMPONENTS) + 1) for choice in itertools.combinations(COMPONENTS, size)]
    choices = [(overlay, choice) for overlay in OVERLAYS for choice in (every if "0.6b" in overlay[-4:]
               and "rerank" not in overlay else some)]
    return [("+".join([overlay, *choice]), render(overlay, *choice)) for overlay, choice in choices]


def of_kind(objects, *kinds):
    return [item for item in objects if item["kind"] in kinds]


def only(objects, kind, name):
    """The one object of this kind whose name is `name`, or begins so and ends in kustomize's hash."""
    found = [item for item in of_kind(objects, kind)
             if re.fullmatch(re.escape(name) + ("(-[0-9a-z]{10})?" if kind == "ConfigMap" else ""), item["metadata"]["name"])]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} objects {kind}/{name}")
    return found[0]


def pod_templates(objects):
    """[(object, its pods' template)]"""
    return [(item, item["spec"]["template"]) for item in of_kind(objects, "Deployment", "Job", "StatefulSet")]


def containers(template):
    return template["spec"].get("initContainers", []) + template["spec"]["containers"]


def variables(objects, container):
    """{name: value} as the kubelet sets them, ConfigMaps resolved; values of Secrets and pod fields are None."""
    found = {}
    for source in container.get("envFrom", []):
        found.update(only(objects, "ConfigMap", source["configMapRef"]["name"])["data"])
    for entry in container.get("env", []):
        found[entry["name"]] = entry.get("value")
    return found


def matches(selector, labels):
    unknown = set(selector) - {"matchLabels"}
    if unknown:
        raise AssertionError(f"{unknown} is not handled here")
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def quantity(text):
    """Bytes, or CPUs, of "2560Mi", "10Gi", "4", "500m"."""
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9, "m": 1e-3}
    for unit, factor in units.items():
        if str(text).endswith(unit):
            return float(str(text)[:-len(unit)]) * factor
    return float(text)
