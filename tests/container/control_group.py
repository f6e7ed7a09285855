"""Control groups of the tests' own, version 1 or 2: a process enters before it starts, so that it sees its limits from
the first instruction on.

    with ControlGroup(cpus=1, memory_bytes=2 << 30) as group:
        subprocess.Popen([...], preexec_fn=group.enter)
"""

import contextlib
import itertools
import os
import time

GROUPS = "/sys/fs/cgroup"
PERIOD_US = 100_000
_numbers = itertools.count()


def has_version_2():
    return os.path.exists(os.path.join(GROUPS, "cgroup.controllers"))


def read(folder, file):
    with open(os.path.join(folder, file), encoding="ascii") as opened:
        return opened.read()


def write(folder, file, value):
    with open(os.path.join(folder, file), "w", encoding="ascii") as opened:
        opened.write(str(value))


def value_of(text, name):
    """The number behind `name` in lines of "name number"; 0 if there is none."""
    return next((int(line.split()[1]) for line in text.splitlines() if line.split()[:1] == [name]), 0)


class ControlGroup:
    """Raises OSError where the tests may not make one: not root, mounted read-only, controllers not delegated."""

    def __init__(self, cpus=None, memory_bytes=None, cpuset=None, parent=None):
        self.version_2 = has_version_2()
        name = f"espalier_limits_{os.getpid()}_{next(_numbers)}"
        needed = {"cpu": cpus or parent, "memory": memory_bytes or parent, "cpuset": cpuset}
        controllers = [controller for controller, asked in needed.items() if asked]
        self.folders = {}
        try:
            for controller in controllers:
                above = parent.folders[controller] if parent else \
                    GROUPS if self.version_2 else os.path.join(GROUPS, controller)
                folder = os.path.join(above, name)
                if folder not in self.folders.values():
                    os.mkdir(folder)
                self.folders[controller] = folder
            if cpus:
                self._limit_cpus(cpus)
            if memory_bytes:
                self.limit_memory(memory_bytes)
            if cpuset:
                self._limit_cpuset(cpuset)
        except OSError:
            self.remove()
            raise

    def _limit_cpus(self, cpus):
        folder, quota = self.folders["cpu"], int(cpus * PERIOD_US)
        if self.version_2:
            write(folder, "cpu.max", f"{quota} {PERIOD_US}")
        else:
            write(folder, "cpu.cfs_period_us", PERIOD_US)
            write(folder, "cpu.cfs_quota_us", quota)

    def limit_memory(self, memory_bytes):
        folder = self.folders["memory"]
        write(folder, "memory.max" if self.version_2 else "memory.limit_in_bytes", memory_bytes)
        # No way out into swap, where the machine has any.
        with contextlib.suppress(OSError):
            if self.version_2:
                write(folder, "memory.swap.max", 0)
            else:
                write(folder, "memory.memsw.limit_in_bytes", memory_bytes)

    def _limit_cpuset(self, cpuset):
        folder = self.folders["cpuset"]
        if not self.version_2:
            write(folder, "cpuset.mems", read(os.path.dirname(folder), "cpuset.mems").strip())
        write(folder, "cpuset.cpus", cpuset)

    def enter(self):
        """For preexec_fn: the calling process moves in."""
        for folder in set(self.folders.values()):
            write(folder, "cgroup.procs", os.getpid())

    def memory_in_use(self):
        return int(read(self.folders["memory"],
                        "memory.current" if self.version_2 else "memory.usage_in_bytes"))

    def memory_peak(self):
        """With the page cache; 0 where the kernel does not tell."""
        with contextlib.suppress(OSError):
            return int(read(self.folders["memory"],
                            "memory.peak" if self.version_2 else "memory.max_usage_in_bytes"))
        return 0

    def kills(self):
        """How many processes the kernel has killed for memory."""
        file = "memory.events" if self.version_2 else "memory.oom_control"
        return value_of(read(self.folders["memory"], file), "oom_kill")

    def times_at_limit(self):
        """How often the kernel had to reclaim something before it could give more."""
        if self.version_2:
            return value_of(read(self.folders["memory"], "memory.events"), "max")
        return int(read(self.folders["memory"], "memory.failcnt"))

    def throttled(self):
        """(periods in which it had to wait for its next quota, periods in which it ran)"""
        stat = read(self.folders["cpu"], "cpu.stat")
        return value_of(stat, "nr_throttled"), value_of(stat, "nr_periods")

    def remove(self):
        """Once nothing runs in it; the kernel takes a moment to notice."""
        for folder in set(self.folders.values()):
            for _ in range(100):
                try:
                    os.rmdir(folder)
                    break
                except OSError:
                    time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()
