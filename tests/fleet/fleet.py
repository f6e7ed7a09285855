"""A fleet for the tests: HAProxy with configs/haproxy.cfg before servers of the bundled model, all real, on loopback.

    fleet = Fleet(self, replicas=3)               # ready when the constructor returns; gone after the test (or its class)
    fleet.replicas[0].kill(); fleet.replicas[0].start()
    fleet.proxy.post("/v1/rerank", {…})

Exits with 77, which CTest shows as skipped, where HAProxy is not installed."""

import csv
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tests", "http"))

from espalier_server import Server, free_port, time_limit, wait_until  # noqa: E402

CONFIG = os.path.join(SOURCE, "configs", "haproxy.cfg")
HAPROXY = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

if HAPROXY is None:
    print("skipped: haproxy is not installed (tools/install-deps test)", file=sys.stderr)
    sys.exit(77)


def proxy_environment(settings):
    """This process's environment with `settings`, and without what else would change the proxy."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ESPALIER_")}
    return {**clean, **settings}


def server_at(port):
    """Asks whatever listens at that port, as a Server that somebody else runs."""
    server = Server.__new__(Server)
    server.port = port
    return server


class Replica:
    """A server that keeps its ports over restarts. Its name in HAProxy's log is `name`."""

    def __init__(self, name, *options, host="127.0.0.1", ports=None):
        self.name = name
        self.host = host
        self.port, self.admin_port = ports or (free_port(), free_port())
        self._options = ("--host", host, "--port", self.port, "--admin-port", self.admin_port, *options)
        self.server = None
        self.ended = []  # log lines of those before
        self.start()

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def start(self):
        """Ready when it returns."""
        self.server = Server(*self._options)

    def kill(self):
        """As `kill -9`."""
        self.server.kill()
        self.ended += self.server.log

    def stop(self):
        """By SIGTERM; returns when it has ended, which it must with exit code 0."""
        self.server.stop()
        self.ended += self.server.log
        self.server.process.stderr.close()

    def metric(self, name):
        return server_at(self.admin_port).metric(name)

    def close(self):
        if self.server is not None and self.server.process.poll() is None:
            self.server.kill()


class Proxy(Server):
    """HAProxy. Requests as of a Server; `substitutions` are made in the configuration: [(regular expression, text)]. One process, in the
    foreground, which is killed as one; with `master`, as services and containers run it, a master and a worker."""

    def __init__(self, settings, substitutions=(), master=False):  # pylint: disable=super-init-not-called
        self._config = tempfile.NamedTemporaryFile("w", suffix=".cfg", encoding="utf-8")
        self.write_configuration(substitutions)
        self.port, self.stats_port = free_port(), free_port()
        self.log = []
        environment = proxy_environment({"ESPALIER_PROXY_BIND": f"127.0.0.1:{self.port}",
                                         "ESPALIER_PROXY_STATS_BIND": f"127.0.0.1:{self.stats_port}", **settings})
        self.process = subprocess.Popen([HAPROXY, *(["-W"] if master else []), "-db", "-f", self._config.name],
                                        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace")
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()

    def _read_output(self):
        for line in self.process.stdout:
            self.log.append(line)

    def write_configuration(self, substitutions):
        """What its next start or reload reads."""
        with open(CONFIG, encoding="utf-8") as file:
            text = file.read()
        for pattern, replacement in substitutions:
            text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
            assert count > 0, f"nothing in {CONFIG} is {pattern}"
        self._config.seek(0)
        self._config.truncate()
        self._config.write(text)
        self._config.flush()

    def requests_logged(self):
        """Fields of each request's log line, oldest first. HAProxy drops lines when this process does not read fast enough."""
        return [dict(field.split("=", 1) for field in line.split(" request ", 1)[1].split())
                for line in list(self.log) if " request request_id=" in line]

    def logged(self, request_id):
        """The log line's fields of one request; waits for it."""
        def find():
            return [fields for fields in self.requests_logged() if fields["request_id"] == request_id]
        return wait_until(find, f"a log line of {request_id}", 10)[0]

    def statistics(self):
        """{(proxy, server): {column: text}} of the statistics page."""
        text = server_at(self.stats_port).get("/stats;csv").body.decode().lstrip("# ")
        return {(row["pxname"], row["svname"]): row for row in csv.DictReader(io.StringIO(text))}

    def requests_taken(self, backend="by_prefix"):
        """By replica, attempts that failed included."""
        return {server: int(row["stot"]) for (proxy, server), row in self.statistics().items()
                if proxy == backend and server not in ("FRONTEND", "BACKEND")}

    def replicas_up(self, backend="by_prefix"):
        return {server for (proxy, server), row in self.statistics().items()
                if proxy == backend and server not in ("FRONTEND", "BACKEND") and row["status"].startswith("UP")}

    def peak_bytes(self):
        """Of resident memory, since its start."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1)) * 1024

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self._config.close()


class Fleet:
    """Replicas and the proxy before them; `options` are the replicas', `settings` the proxy's environment, the rest is as of Proxy."""

    def __init__(self, case, replicas=3, options=(), settings=None, substitutions=(), master=False):
        add_cleanup = case.addClassCleanup if isinstance(case, type) else case.addCleanup
        self.replicas = []
        for number in range(1, replicas + 1):
            self.replicas.append(Replica(f"replica{number}", *options))
            add_cleanup(self.replicas[-1].close)
        self.proxy = self.add_proxy(add_cleanup, settings, substitutions, master)

    def add_proxy(self, add_cleanup, settings=None, substitutions=(), master=False):
        """Another one before the same replicas; all of them are up for it when this returns."""
        environment = {}
        for number, replica in enumerate(self.replicas, 1):
            environment[f"ESPALIER_REPLICA_{number}"] = replica.address
            environment[f"ESPALIER_CHECK_PORT_{number}"] = str(replica.admin_port)
        proxy = Proxy({**environment, **(settings or {})}, substitutions, master)
        add_cleanup(proxy.close)

        def all_up():
            assert proxy.process.poll() is None, "".join(proxy.log)
            try:
                return len(proxy.replicas_up()) == len(self.replicas)
            except OSError:
                return False
        wait_until(all_up, "all replicas up", 20)
        return proxy

    def rows_computed(self):
        return sum(replica.metric("espalier_compact_tokens_total") for replica in self.replicas)

    def close(self):
        self.proxy.close()
        for replica in self.replicas:
            replica.close()


__all__ = ["CONFIG", "HAPROXY", "SOURCE", "Fleet", "Proxy", "Replica", "proxy_environment", "server_at", "time_limit",
           "wait_until"]
