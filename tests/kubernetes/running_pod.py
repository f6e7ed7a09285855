"""Runs a container of a rendering on this machine: its arguments and its environment as the kubelet would set them, and
nothing else, under its user where the test may change users. What has to differ here is replaced: ports by free ones, paths
of volumes by folders."""

import os
import re
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
import espalier_server  # noqa: E402
from espalier_server import BINARY, free_port, time_limit, wait_until  # noqa: E402

from manifests import variables  # noqa: E402


class Container:
    """`folders`: {path in the container: folder here}; `secrets`: {variable: value}."""

    def __init__(self, objects, template, folders, secrets=None, extra=None):
        self.spec, = template["spec"]["containers"]
        self.user = template["spec"]["securityContext"]["runAsUser"]
        self.ports = {port["name"]: port["containerPort"] for port in self.spec.get("ports", [])}
        self.free = {name: free_port() for name in self.ports}
        settings = {**variables(objects, self.spec), **(secrets or {})}
        self.environment = {name: self.here(value, folders) for name, value in settings.items() if value is not None}
        self.environment.update(extra or {})
        self.arguments = [self.here(argument, {}) for argument in self.spec["args"]]

    def here(self, text, folders):
        for path, folder in folders.items():
            text = re.sub(rf"^{re.escape(path)}(?=/|$)", folder, text)
        for name, number in self.ports.items():
            text = re.sub(rf"^(--[a-z-]*port=){number}$", rf"\g<1>{self.free[name]}", text)
        return text

    def start(self):
        as_user = {"user": self.user, "group": self.user, "extra_groups": []} if os.getuid() == 0 else {}
        process = subprocess.Popen([BINARY, *self.arguments], env=self.environment, stdin=subprocess.DEVNULL, cwd="/",
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **as_user)
        return RunningContainer(self, process)


class RunningContainer(espalier_server.Server):
    """A Server that is asked at the ports that the container names."""

    def __init__(self, container, process):
        self.container = container
        self.process = process
        self.port = container.free.get("http")
        self.log = []
        self._reader = threading.Thread(target=lambda: self.log.extend(process.stdout), daemon=True)
        self._reader.start()

    def wait_until_started(self):
        def started():
            if self.process.poll() is not None:
                raise AssertionError(f"exit code {self.process.returncode}:\n{self.log_text()}")
            return self.probe("startup") == 200
        wait_until(started, "the startup probe")

    def ask(self, probe):
        """The status that a probe's httpGet gets; None without an answer."""
        own, self.port = self.port, self.container.free[probe["port"]]
        try:
            return self.get(probe["path"]).status
        except OSError:
            return None
        finally:
            self.port = own

    def probe(self, kind):
        return self.ask(self.container.spec[kind + "Probe"]["httpGet"])

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(time_limit(60))
        self._reader.join()
        self.process.stdout.close()
