"""What the figures were measured on, and how busy others kept it meanwhile."""
import os
import resource
import time
from pathlib import Path

QUIET_CPUS = 0.2
TICKS = os.sysconf("SC_CLK_TCK")
MATRIX_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


def cpu_info(key):
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def describe():
    flags = cpu_info("flags").split()
    return {
        "cpu": cpu_info("model name"),
        "family": cpu_info("cpu family"),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "instructions": [flag for flag in MATRIX_FLAGS if flag in flags],
    }


def busy_seconds():
    """CPU time that the whole machine has spent, and lost to its host, since it started."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def own_seconds(processes):
    """CPU time of running `processes` and of all children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


def wait_until_quiet(end):
    """Returns once the CPUs stood nearly idle for a second, or at the monotonic time `end`."""
    while time.monotonic() < end:
        busy, began = busy_seconds(), time.monotonic()
        time.sleep(1)
        if busy_seconds() - busy < QUIET_CPUS * (time.monotonic() - began):
            return
