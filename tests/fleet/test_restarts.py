"""Replicas are killed and restarted under load, again and again, and no client sees it.

For ESPALIER_FLEET_SECONDS (20), clients with one connection and clients with one a request send rerank, embeddings, long inputs and large
bodies through HAProxy. Meanwhile a replica is killed as by `kill -9` and started again, then all three are restarted in turn by
SIGTERM, and so on. Every answer must be 200 with the numbers of a lone server.

Bodies of megabytes, which fit no buffer of the proxy, can't be repeated when their replica is killed: none is sent when that happens,
and until the proxy has found out. Restarts by SIGTERM must not cost a request of any size."""

import os
import statistics
import sys
import threading
import time
import unittest

from fleet import Fleet, wait_until
from espalier_server import EspalierTest, Server
from traffic import Client, huge_questions, mixed_questions

SECONDS = float(os.environ.get("ESPALIER_FLEET_SECONDS", "20"))
KEEP_ALIVE_CLIENTS = 6
ONE_SHOT_CLIENTS = 3


class RestartTest(EspalierTest):
    def setUp(self):
        lone = Server()
        self.addCleanup(lone.kill)
        self.questions, self.huge = mixed_questions(lone), huge_questions(lone)
        lone.stop()
        self.fleet = Fleet(self, 3, options=("--threads", "1", "--drain-timeout", "50"))
        self.huge_pause = threading.Lock()

    def back_up(self, replica):
        wait_until(lambda: replica.name in self.fleet.proxy.replicas_up(), f"{replica.name} up again", 20)

    def kill_one(self, replica):
        with self.huge_pause:
            replica.kill()
            wait_until(lambda: replica.name not in self.fleet.proxy.replicas_up(), f"{replica.name} is down", 20)
        replica.start()
        self.back_up(replica)

    def restart_all(self):
        for replica in self.fleet.replicas:
            replica.stop()
            time.sleep(0.5)  # no container or service is back sooner
            replica.start()
            self.back_up(replica)

    def test_no_client_sees_a_replica_end(self):
        port = self.fleet.proxy.port
        clients = [Client(port, self.questions, number < KEEP_ALIVE_CLIENTS, number)
                   for number in range(KEEP_ALIVE_CLIENTS + ONE_SHOT_CLIENTS)]
        clients += [Client(port, self.huge, keeps_alive, 100 + keeps_alive, pause=self.huge_pause)
                    for keeps_alive in (False, True)]
        kills = restarts = 0
        ends_at = time.monotonic() + SECONDS
        while time.monotonic() < ends_at:
            # The second one of a pair is killed while requests of the first are on their way again.
            self.kill_one(self.fleet.replicas[kills % 3])
            kills += 1
            if kills % 2 == 0:
                self.restart_all()
                restarts += 3
        for client in clients:
            client.stop()
        for client in clients:
            client.finish()
        failures = [failure for client in clients for failure in client.failures]
        seconds = sorted(second for client in clients for second in client.seconds)
        backends = [self.fleet.proxy.statistics()[backend, "BACKEND"] for backend in ("by_prefix", "by_load")]
        repeated = sum(int(row["wretr"]) + int(row["wredis"]) for row in backends)
        print(f"{SECONDS:.0f} s: {len(seconds)} requests, {len(failures)} failures, {kills} kills, {restarts} restarts by SIGTERM; "
              f"{repeated} repeated; seconds: median {statistics.median(seconds):.3f}, "
              f"99 % {seconds[int(len(seconds) * 0.99)]:.3f}, longest {seconds[-1]:.3f}; "
              f"proxy {self.fleet.proxy.peak_bytes() / 1e6:.0f} MB", file=sys.stderr)
        if failures:
            with open(os.environ.get("ESPALIER_FLEET_LOG", os.devnull), "w", encoding="utf-8") as file:
                file.writelines(self.fleet.proxy.log)
        self.assertEqual(failures[:10], [], f"{len(failures)} failures of {len(seconds)} requests")
        self.assertGreater(kills, 0)
        self.assertGreater(repeated, 0, "no request met a replica that had ended: this run shows nothing")
        logged = self.fleet.proxy.requests_logged()
        self.assertEqual({fields["replica"] for fields in logged if fields["status"] == "200"},
                         {replica.name for replica in self.fleet.replicas})


if __name__ == "__main__":
    unittest.main()
