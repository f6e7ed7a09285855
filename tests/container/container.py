"""Runs an image by runc: real namespaces, a read-only root, no capabilities, no new privileges, the system calls that
container engines allow, and the host's network. That is `docker run --read-only --cap-drop ALL --network host
--security-opt no-new-privileges`, and no /tmp that could be written.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid

import image as image_of
import espalier_server
from espalier_server import Server, time_limit

SECCOMP = "/usr/share/containers/seccomp.json"  # of golang-github-containers-common
CACHE = "/var/cache/espalier"


def system_calls():
    """The engines' own profile for a container without capabilities, as runc takes it; none if it is not installed."""
    if not os.path.exists(SECCOMP):
        return None
    with open(SECCOMP, encoding="utf-8") as file:
        profile = json.load(file)

    def holds(rule):
        needed = rule.get("includes") or {}
        return not needed.get("caps") and (not needed.get("arches") or "amd64" in needed["arches"]) and (
            "amd64" not in ((rule.get("excludes") or {}).get("arches") or []))

    rules = [{"names": rule["names"], "action": rule["action"], "args": rule.get("args") or [],
              **({"errnoRet": rule["errnoRet"]} if "errnoRet" in rule else {})}
             for rule in profile["syscalls"] if holds(rule)]
    return {"defaultAction": profile["defaultAction"], "defaultErrnoRet": profile["defaultErrnoRet"],
            "architectures": ["SCMP_ARCH_X86_64"], "syscalls": rules}


class Bundle:
    """What runc runs: an image, a command, a user and volumes, written into a folder."""

    def __init__(self, image, command=(), env=None, user=None, volumes=(), read_only_cache=False, cache=None):
        """`command`: instead of the image's, as after `docker run IMAGE`; `user`: (uid, gid) instead of the image's;
        `volumes`: (host path, path) pairs, read-only; `cache`: the host folder that is its cache, else a new one."""
        self.folder = tempfile.mkdtemp(prefix="espalier-container-")
        self.name = f"espalier-{uuid.uuid4().hex[:12]}"
        config = image.config
        self.user = user or tuple(map(int, config["User"].split(":")))
        if cache is None:
            # An engine gives a new volume the owner and mode of the folder that it covers.
            cache = os.path.join(self.folder, "cache")
            status = os.stat(image.root + CACHE)
            os.mkdir(cache)
            os.chown(cache, status.st_uid, status.st_gid)
            os.chmod(cache, status.st_mode & 0o7777)
        self.cache = cache
        bind = ["rbind", "nosuid", "nodev"]
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/sys", "type": "bind", "source": "/sys", "options": [*bind, "noexec", "ro"]},
            {"destination": CACHE, "type": "bind", "source": cache, "options": bind + ["ro"] * read_only_cache},
            *({"destination": inside, "type": "bind", "source": outside, "options": [*bind, "ro"]}
              for outside, inside in volumes)]
        variables = dict(pair.split("=", 1) for pair in config["Env"]) | (env or {})
        process = {"terminal": False, "user": {"uid": self.user[0], "gid": self.user[1]},
                   "args": [*config["Entrypoint"], *map(str, command or config["Cmd"])],
                   "env": [f"{name}={value}" for name, value in variables.items()],
                   "cwd": config["WorkingDir"] or "/", "noNewPrivileges": True,
                   "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted")}}
        linux = {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "cgroup")],
                 "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
                 "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]}
        if system_calls():
            linux["seccomp"] = system_calls()
        with open(os.path.join(self.folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"ociVersion": "1.0.2", "process": process, "root": {"path": image.root, "readonly": True},
                       "hostname": "espalier", "mounts": mounts, "linux": linux}, file)

    def arguments(self):
        return ["runc", "run", "--bundle", self.folder, self.name]

    def close(self):
        subprocess.run(["runc", "delete", "--force", self.name], capture_output=True, check=False)
        shutil.rmtree(self.folder)


def run_in(image, *command, stdin="", **settings):
    """A command that ends by itself, as `docker run --rm IMAGE command`."""
    bundle = Bundle(image, command, **settings)
    try:
        return subprocess.run(bundle.arguments(), input=stdin, capture_output=True, text=True, timeout=time_limit(60),
                              check=False)
    finally:
        bundle.close()


class Container(Server):
    """A server in a container; its requests are those of Server. `close()` it."""

    def __init__(self, image, command=(), wait=True, **settings):
        self.port = None
        self.bundle = Bundle(image, command, **settings)
        self.log = []
        self._ready = threading.Event()
        self.process = subprocess.Popen(self.bundle.arguments(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if wait:
            self._ready.wait(time_limit(60))
            if self.port is None:
                self.close()
                raise AssertionError(f"the container did not get ready:\n{self.log_text()}")

    def execute(self, *command, env=None):
        """As `docker exec`."""
        variables = [part for name, value in (env or {}).items() for part in ("--env", f"{name}={value}")]
        return subprocess.run(["runc", "exec", "--user", ":".join(map(str, self.bundle.user)), *variables,
                               self.bundle.name, *map(str, command)],
                              capture_output=True, text=True, timeout=time_limit(60), check=False)

    def send_signal(self, number=espalier_server.signal.SIGTERM):
        """To the container's first process, as `docker stop` does."""
        done = subprocess.run(["runc", "kill", self.bundle.name, str(int(number))], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr

    def close(self):
        if self.process.poll() is None:
            subprocess.run(["runc", "kill", self.bundle.name, "KILL"], capture_output=True, check=False)
        self.kill()
        self.bundle.close()


def run_tests(make_image, *programs):
    """For the __main__ of tests: gives the module its IMAGE and runs it. Exits with 77, which CTest shows as skipped, and says
    why, where a machine cannot make or run one."""
    image = None
    try:
        image_of.need("runc", *programs)
        image = make_image()
        done = run_in(image, "--version")
        if done.returncode != 0:
            raise image_of.NotHere("runc runs nothing here: " + re.sub(r"\s+", " ", done.stderr)[-500:])
        sys.modules["__main__"].IMAGE = image
        unittest.main()
    except image_of.NotHere as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    finally:
        if image is not None:
            image.close()
