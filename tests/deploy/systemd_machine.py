"""A machine that systemd has started, as a container of systemd-nspawn: for running the unit in its sandbox.

ESPALIER_SYSTEMD_ROOT names its root file system, of the same Debian release as this one:

    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps,ca-certificates bookworm DIR

What the server is linked with comes from this machine, read-only; nothing is written into the root. It needs root."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def why_not():
    """Why no machine can be started here; None if it can."""
    root = os.environ.get("ESPALIER_SYSTEMD_ROOT", "")
    if not root:
        return "ESPALIER_SYSTEMD_ROOT names no root file system with systemd (see systemd_machine.py)"
    if os.geteuid() != 0:
        return "starting a container takes root"
    if shutil.which("systemd-nspawn") is None:
        return "systemd-nspawn is not installed (Debian's package systemd-container)"
    if not os.path.exists(os.path.join(root, "lib/systemd/systemd")):
        return f"there is no systemd in ESPALIER_SYSTEMD_ROOT={root}"
    return None


def linked_libraries(binary):
    """Paths of the shared libraries that `binary` is linked with, but for those that every system has."""
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.findall(r"=> (/\S+)", listed)
    return [path for path in found if not re.search(r"/(libc|libm|ld-linux[^/]*)\.so", path)]


class Machine:
    """`install`: {path inside: file or folder here}, read-only. The network is this machine's."""

    def __init__(self, binary, model, unit):
        self.folder = tempfile.mkdtemp()
        self.init = None
        libraries = os.path.join(self.folder, "lib")
        os.mkdir(libraries)
        for library in linked_libraries(binary):
            shutil.copy(library, libraries)
        install = {"/usr/local/bin/espalier": binary, "/usr/local/share/espalier/models/espalier-mini": model,
                   "/usr/local/lib/systemd/system/espalier.service": unit, "/usr/local/lib/espalier-test": libraries}
        self.log = os.path.join(self.folder, "console")
        binds = [f"--bind-ro={here}:{inside}" for inside, here in install.items()]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["systemd-nspawn", "--directory", os.environ["ESPALIER_SYSTEMD_ROOT"], "--volatile=overlay", "--boot",
                 "--register=no", "--keep-unit", "--quiet", "--console=pipe", *binds], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)
        try:
            self._wait_for_init()
            self.write("/etc/ld.so.conf.d/espalier-test.conf", "/usr/local/lib/espalier-test\n")
            self.run("ldconfig")
        except BaseException:
            self.stop()
            raise

    def _wait_for_init(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True,
                                      check=False).stdout.split()
            if children:
                self.init = children[0]
                if self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"):
                    return
            time.sleep(0.2)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            raise AssertionError(f"systemd did not start:\n{log.read()}")

    def run(self, *command, check=True, stdin=None):
        """A command inside."""
        done = subprocess.run(["nsenter", "--target", self.init, "--all", *command], input=stdin, capture_output=True, text=True,
                              timeout=90, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def write(self, path, text):
        self.run("sh", "-c", f"mkdir -p {os.path.dirname(path)} && cat >{path}", stdin=text)

    def drop_in(self, name, text):
        """Like `systemctl edit espalier`; without text it is taken back."""
        path = f"/etc/systemd/system/espalier.service.d/{name}.conf"
        if text:
            self.write(path, text)
        else:
            self.run("rm", "-f", path)
        self.run("systemctl", "daemon-reload")

    def systemctl(self, command, check=True):
        return self.run("systemctl", command, "espalier", check=check)

    def property(self, name):
        return self.run("systemctl", "show", "espalier", "-P", name).stdout.strip()

    def journal(self):
        return self.run("journalctl", "-u", "espalier", "-o", "cat", "--no-pager").stdout

    def stop(self):
        self.process.terminate()  # halts the system inside
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            if self.init:
                os.kill(int(self.init), signal.SIGKILL)  # and the kernel ends what is in its PID namespace
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
