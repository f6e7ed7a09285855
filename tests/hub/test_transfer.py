"""What breaks on the way: cuts, refusals, silence, wrong contents, full disks, other processes, signals. The file is
right afterwards or the error clear, and there is never half a file in place."""

import os
import pty
import random
import resource
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from hub_test import BINARY, NAME, SMALL, HubTest, environment, time_limit
from model_hub import etag_of

WEIGHTS = "model.safetensors"
LARGE = {**SMALL, WEIGHTS: random.Random(1).randbytes(3_000_000)}


class CutTest(HubTest):
    def test_cuts_at_random_bytes_are_resumed_where_they_were(self):
        chance = random.Random(7)
        self.hub.add(NAME, LARGE)
        self.hub.cut_after = lambda path: chance.randrange(1, 900_000)
        self.assert_snapshot(self.download(), LARGE)
        begins = [int(request.headers["range"][len("bytes="):-1])
                  for request in self.hub.seen("GET", WEIGHTS) if request.host == "cdn" and "range" in request.headers]
        self.assertGreater(len(begins), 2)
        self.assertEqual(begins, sorted(begins))
        self.assertRegex(self.log, "broke; trying again")

    def test_a_server_without_ranges_begins_again(self):
        self.hub.add(NAME, LARGE)
        cuts = [1_000_000, 2_000_000]
        self.hub.has_ranges = False
        self.hub.cut_after = lambda path: cuts.pop() if path == WEIGHTS and cuts else None
        self.assert_snapshot(self.download(), LARGE)

    def test_the_next_process_goes_on(self):
        model = self.hub.add(NAME, LARGE)
        blobs = os.path.join(self.repository(), "blobs")
        os.makedirs(blobs)
        partial = os.path.join(blobs, etag_of(WEIGHTS, LARGE[WEIGHTS]) + ".incomplete")
        for there, asked in ((1_234_567, 1_234_567), (3_000_000, None), (3_000_001, 0)):
            with open(partial, "wb") as file:
                file.write((LARGE[WEIGHTS] + b"x")[:there])
            self.hub.forget()
            self.assert_snapshot(self.download(), LARGE)
            ranges = [request.headers.get("range") for request in self.hub.seen("GET", WEIGHTS) if request.host == "cdn"]
            self.assertEqual(ranges, [] if asked is None else [f"bytes={asked}-" if asked else None])
            os.unlink(os.path.join(self.repository(), "snapshots", model.commit, WEIGHTS))
            os.unlink(os.path.join(blobs, etag_of(WEIGHTS, LARGE[WEIGHTS])))

    def test_what_an_earlier_attempt_left_is_checked_too(self):
        self.hub.add(NAME, LARGE)
        blobs = os.path.join(self.repository(), "blobs")
        os.makedirs(blobs)
        with open(os.path.join(blobs, etag_of(WEIGHTS, LARGE[WEIGHTS]) + ".incomplete"), "wb") as file:
            file.write(b"another file's beginning" * 1000)
        self.assert_snapshot(self.download(), LARGE)
        self.assertRegex(self.log, "the hash of model.safetensors is not .*once more")

    def test_an_interrupted_download_ends_cleanly_and_goes_on(self):
        self.hub.add(NAME, LARGE)
        self.hub.pause = lambda path: 0.1 if path == WEIGHTS else 0
        for number in (signal.SIGINT, signal.SIGTERM):
            there = max(self.partial_files().values(), default=0) if os.path.isdir(self.repository()) else 0
            process = self.start_download()
            self.wait_for_partial(there + 200_000)
            process.send_signal(number)
            out, err = process.communicate(timeout=time_limit(20))
            self.assertEqual((process.returncode, out), (130, ""), err)
            self.assertRegex(err, "stopped; what has been fetched is kept")
            self.assert_nothing_half()
        kept = max(self.partial_files().values())
        self.assertGreater(kept, 200_000)
        self.hub.pause = lambda path: 0
        self.hub.forget()
        self.assert_snapshot(self.download(), LARGE)
        self.assertEqual([request.headers.get("range") for request in self.hub.seen("GET", "blobs")
                          if WEIGHTS in request.path], [f"bytes={kept}-"])

    def test_a_server_that_is_told_to_end_while_it_fetches_does_so_at_once(self):
        self.hub.add(NAME, LARGE)
        self.hub.pause = lambda path: 0.1 if path == WEIGHTS else 0
        process = subprocess.Popen([BINARY, "serve", "--port", "0", "--model", NAME], text=True,
                                   env=environment(self.environment()), stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.wait_for_partial(200_000)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=time_limit(5))
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, err)
        self.assertIn("SIGTERM: ending at once", err)
        self.assert_nothing_half()
        self.hub.pause = lambda path: 0
        self.assert_snapshot(self.download(), LARGE)

    def test_a_killed_download_leaves_what_the_next_can_use(self):
        self.hub.add(NAME, LARGE)
        self.hub.pause = lambda path: 0.1 if path == WEIGHTS else 0
        process = self.start_download()
        self.wait_for_partial(200_000)
        process.kill()
        process.communicate()
        self.assert_nothing_half()
        self.hub.pause = lambda path: 0
        self.assert_snapshot(self.download(), LARGE)
        self.assertRegex(self.log, "model.safetensors: going on after")

    def wait_for_partial(self, bytes_min):
        deadline = time.monotonic() + time_limit(20)
        while time.monotonic() < deadline:
            if os.path.isdir(os.path.join(self.repository(), "blobs")) and \
                    max(self.partial_files().values(), default=0) > bytes_min:
                return
            time.sleep(0.02)
        self.fail("nothing came")


class RefusalTest(HubTest):
    """Statuses, and what the message tells to do."""

    def refuse_first(self, count, status, containing="", headers=()):
        """The first `count` requests with `containing` in their path get `status`."""
        left = [count]

        def before(handler, request):
            if containing not in request.path or not left[0]:
                return False
            left[0] -= 1
            self.hub.refuse(handler, status, more=headers)
            return True

        self.hub.before = before

    def test_busy_hubs_are_asked_again(self):
        self.hub.add(NAME, SMALL)
        for status in (429, 500, 503):
            for containing in ("/api/", "config.json", "blobs/"):
                with self.subTest(status=status, containing=containing), tempfile.TemporaryDirectory() as home:
                    self.refuse_first(1, status, containing)
                    self.cache = os.path.join(home, "hub")
                    self.assert_snapshot(self.download(HF_HOME=home), SMALL)
                    self.assertRegex(self.log, f"answers {status}.*trying again in 0.5 s")

    def test_retry_after_is_kept(self):
        self.hub.add(NAME, SMALL)
        self.refuse_first(1, 429, headers=[("Retry-After", "2")])
        start = time.monotonic()
        self.download()
        self.assertGreater(time.monotonic() - start, 1.9)
        self.assertRegex(self.log, r"answers 429 \(too many requests\); trying again in 2.0 s")

    def test_a_hub_that_stays_busy_is_given_up(self):
        self.hub.add(NAME, SMALL)
        self.refuse_first(99, 503)
        self.assert_fails("answers 503", "HTTPS_PROXY")
        self.assertEqual(self.hub.count(), 5)

    def test_an_expired_address_is_asked_for_again(self):
        self.hub.add(NAME, SMALL)
        self.refuse_first(2, 403, "blobs/")
        self.assert_snapshot(self.download(), SMALL)

    def test_no_such_model(self):
        self.assert_fails("no model espalier/mini, or it is private or gated", "set HF_TOKEN")
        self.assert_fails("no model espalier/mini, or the token that is set may not read it", HF_TOKEN="hf_x")

    def test_no_such_revision(self):
        self.hub.add(NAME, SMALL)
        self.assert_fails("espalier/mini has no revision 'v9'", name=NAME + "@v9")
        self.assert_fails("espalier/mini has no revision 'a{40}'", name=NAME + "@" + "a" * 40)

    def test_private_and_gated(self):
        model = self.hub.add(NAME, SMALL)
        model.token = "hf_secret"
        self.assert_fails("private", "set HF_TOKEN to a token that may read it")
        model.gated = True
        self.assert_fails("is gated: accept its licence at http://127.0.0.1:[0-9]+/espalier/mini; then set HF_TOKEN")
        stderr = self.assert_fails("is gated", "the token that is set has no access", HF_TOKEN="hf_other")
        self.assertNotIn("hf_other", stderr)
        self.assert_snapshot(self.download(HF_TOKEN="hf_secret"), SMALL)

    def test_tokens_come_from_where_hugging_faces_tools_have_them(self):
        self.hub.add(NAME, SMALL).token = "hf_secret"
        for file in ("token", "elsewhere"):
            with open(os.path.join(self.home, file), "w", encoding="ascii") as out:
                out.write("hf_secret\n")
        for number, settings in enumerate(({"HF_TOKEN": "hf_secret"}, {"HUGGING_FACE_HUB_TOKEN": " hf_secret\n"},
                                           {"HF_TOKEN_PATH": self.home + "/elsewhere"}, {})):
            self.download(HF_HUB_CACHE=f"{self.home}/{number}", **settings)
        self.assert_fails("HF_TOKEN holds no token", HF_TOKEN="hf\nInjected: 1")

    def test_what_a_repository_lacks_is_said_before_anything_large_comes(self):
        for lacking, message in (("tokenizer.json", "no tokenizer.json, the only kind of tokenizer file"),
                                 ("config.json", "no config.json"), (WEIGHTS, "no model.safetensors")):
            files = {path: content for path, content in SMALL.items() if path != lacking}
            self.hub.add(NAME, {**files, "pytorch_model.bin": b"x"})
            self.assert_fails(message)
        self.assertEqual(self.hub.count(containing="/resolve/"), 0)

    def test_nobody_there(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        stderr = self.assert_fails("no connection to", "HF_ENDPOINT or HTTPS_PROXY", HF_ENDPOINT=f"http://127.0.0.1:{port}")
        self.assertEqual(stderr.count("trying again"), 4)
        self.assert_fails("no connection to http://no-such-host.invalid", HF_ENDPOINT="http://no-such-host.invalid")

    def test_names_that_are_none(self):
        for name in ("a/..", "../a", "a/b@..", "a/b@x/../y", "a/b@", "a/b:", "a/b:../c", "-a/b", "a--b/c", "a/b c", "a",
                     "a/b/c", "a/b@x\ny", "/a/b", "a/b:\n"):
            done = self.run_command("download", "--", name)
            self.assertEqual((done.returncode, done.stdout), (1, ""), name)
            self.assertRegex(done.stderr, "is not")
        self.assertEqual(self.hub.requests, [])
        self.assertFalse(os.path.exists(self.cache))


class WrongContentTest(HubTest):
    def test_a_wrong_hash_is_fetched_once_more(self):
        self.hub.add(NAME, SMALL)
        for path in SMALL:
            with self.subTest(path=path), tempfile.TemporaryDirectory() as home:
                wrong = [1]
                self.hub.altered = lambda file, content, path=path, wrong=wrong: \
                    content[:-1] + b"?" if file == path and wrong and wrong.pop() else content
                self.cache = os.path.join(home, "hub")
                self.assert_snapshot(self.download(HF_HOME=home), SMALL)
                self.assertRegex(self.log, f"the hash of {path} is not [0-9a-f]+, which the hub announced; fetching it")

    def test_a_hash_that_stays_wrong_is_an_error(self):
        self.hub.add(NAME, SMALL)
        for path in SMALL:
            self.hub.altered = lambda file, content, path=path: b"?" + content[1:] if file == path else content
            self.assert_fails(f"the hash of {path} is not", "thrown away")
            self.assertEqual(set(self.partial_files().values()) - {0}, set())

    def test_wrong_lengths(self):
        self.hub.add(NAME, SMALL)
        for path in SMALL:
            for altered in (lambda content: content + b"more", lambda content: content[:-1]):
                self.hub.altered = lambda file, content, path=path, altered=altered: \
                    altered(content) if file == path else content
                self.assert_fails(f"announced {path} with {len(SMALL[path])} bytes, and sends")

    def test_more_than_announced_without_a_length(self):
        self.hub.add(NAME, SMALL)

        def before(handler, request):
            if request.method != "GET" or "config.json" not in request.path:
                return False
            handler.send_response(200)
            handler.send_header("Connection", "close")
            handler.end_headers()
            while True:  # until the other side has had enough
                handler.wfile.write(b"x" * 4096)

        self.hub.before = before
        self.assert_fails("announced config.json with 2 bytes, and sends more")

    def test_a_commit_that_was_not_asked_for(self):
        self.hub.add(NAME, SMALL)

        def before(handler, request):
            if request.method != "HEAD":
                return False
            self.hub.reply(handler, 200, [("X-Repo-Commit", "f" * 40), ("ETag", '"x"'), ("Content-Length", "2")])
            return True

        self.hub.before = before
        self.assert_fails("answers with commit ffff")

    def test_etags_that_would_be_paths(self):
        self.hub.add(NAME, SMALL)
        for etag in ("../../../x", "a/b", ".hidden", "", "x" * 300, "a b"):
            self.hub.announced_etag = lambda path, right, etag=etag: etag
            self.assert_fails("gives no ETag")
        self.assertEqual(sorted(os.listdir(self.home)), [])

    def test_etags_that_say_nothing_of_the_content(self):
        self.hub.add(NAME, SMALL)
        self.hub.announced_etag = lambda path, right: "mirror-" + right[:8]
        path = self.download()
        for file, content in SMALL.items():
            with open(os.path.join(path, file), "rb") as found:
                self.assertTrue(found.read() == content)

    def test_listings_that_lead_out_of_the_folder(self):
        index = b'{"weight_map": {"a": "../../../../evil.safetensors"}}'
        self.hub.add(NAME, {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors.index.json": index})
        self.assert_fails("expected names of .safetensors files")
        modules = b'[{"type": "x.Pooling", "path": "../../.."}]'
        self.hub.add(NAME, {**SMALL, "modules.json": modules})
        self.assert_fails("leads out of the model's folder")

    def test_answers_that_are_no_listing(self):
        self.hub.add(NAME, SMALL)
        for body in (b"", b"<html>", b"[]", b"{}", b'{"sha": 5}', b'{"sha": "main", "siblings": []}', b"[" * 100_000,
                     b'{"sha": "' + b"a" * 40 + b'"}', b'{"sha": "' + b"a" * 40 + b'", "siblings": [1]}',
                     b'{"sha": "' + b"a" * 40 + b'", "siblings": [{"rfilename": {}}]}'):
            self.hub.before = lambda handler, _, body=body: self.hub.reply(handler, 200, body=body) or True
            self.assert_fails("is no hub as Hugging Face's")


class HostileAnswerTest(HubTest):
    """Raw bytes where an answer should be: an end within the time limit, and little memory."""

    def run_against(self, serve, *patterns, seconds=None, **env):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def accept():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=converse, args=(connection,), daemon=True).start()

        def converse(connection):
            with connection:
                try:
                    connection.recv(65536)
                    serve(connection)
                except OSError:
                    pass

        threading.Thread(target=accept, daemon=True).start()
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))) \
            if not os.environ.get("ESPALIER_TEST_SLOWDOWN") else (lambda: None)
        process = self.start_download(preexec=limit, HF_HUB_DOWNLOAD_TIMEOUT="1",
                                      HF_ENDPOINT=f"http://127.0.0.1:{listener.getsockname()[1]}", **env)
        out, err = process.communicate(timeout=time_limit(60))
        self.assertEqual((process.returncode, out), (1, ""), err)
        for pattern in patterns:
            self.assertRegex(err.strip().splitlines()[-1], pattern)

    def test_an_endless_head(self):
        def serve(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                connection.sendall(b"X-A: " + b"a" * 1000 + b"\r\n")
        self.run_against(serve, "sends a head without an end")

    def test_an_endless_line(self):
        def serve(connection):
            while True:
                connection.sendall(b"H" * 65536)
        self.run_against(serve, "sends a head without an end")

    def test_endless_interim_answers(self):
        def serve(connection):
            while True:
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
        self.run_against(serve, "sends a head without an end")

    def test_an_endless_listing(self):
        def serve(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                connection.sendall(b" " * 65536)
        self.run_against(serve, "lists more files")

    def test_an_endless_chunk_size(self):
        def serve(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
            while True:
                connection.sendall(b"x" * 65536)
        self.run_against(serve, "sends a head without an end")

    def test_silence(self):
        self.run_against(lambda connection: time.sleep(30), "sends nothing for 1 s")

    def test_dripping(self):
        def serve(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while True:
                connection.sendall(b" ")
                time.sleep(0.1)
        self.run_against(serve, "sends less than 1 kB a second")

    def test_no_http(self):
        for answer in (b"", b"\0" * 100, b"SSH-2.0-x\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n"):
            self.run_against(lambda connection, answer=answer: connection.sendall(answer), "broke|is no hub|answers")

    def test_strange_lengths(self):
        for length in (b"-1", b"99999999999999999999999", b"abc", b"18446744073709551615"):
            answer = b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\n{}"
            self.run_against(lambda connection, answer=answer: connection.sendall(answer), "broke|is no hub|answers")


class TogetherTest(HubTest):
    def test_two_processes_fetch_each_file_once(self):
        self.hub.add(NAME, LARGE)
        self.hub.pause = lambda path: 0.03 if path == WEIGHTS else 0
        processes = [self.start_download() for _ in range(4)]
        outcomes = [process.communicate(timeout=time_limit(60)) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * 4, outcomes)
        for out, _ in outcomes:
            self.assert_snapshot(out.strip(), LARGE)
        for path in LARGE:
            gets = [request for request in self.hub.seen("GET", "/resolve/") if request.path.endswith(path)]
            self.assertEqual(len(gets), 1, path)
        self.assertRegex("".join(err for _, err in outcomes), "another process is fetching model.safetensors; waiting")

    def test_another_tools_lock_is_respected(self):
        self.hub.add(NAME, SMALL)
        locks = os.path.join(self.cache, ".locks", "models--espalier--mini")
        os.makedirs(locks)
        holder = subprocess.Popen(["flock", os.path.join(locks, etag_of("config.json", b"{}") + ".lock"), "cat"],
                                  stdin=subprocess.PIPE)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.stdin.close)
        time.sleep(0.3)
        process = self.start_download()
        time.sleep(1.5)
        self.assertIsNone(process.poll())
        holder.stdin.close()
        out, err = process.communicate(timeout=time_limit(20))
        self.assertEqual(process.returncode, 0, err)
        self.assert_snapshot(out.strip(), SMALL)
        self.assertRegex(err, "another process is fetching config.json")


class DiskTest(HubTest):
    def mount(self, size):
        folder = os.path.join(self.home, "disk")
        os.makedirs(folder)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True,
                              check=False)
        if done.returncode != 0:
            self.skipTest("mounting takes rights that this process lacks")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        self.cache = folder
        return folder

    def test_a_disk_without_room_is_told_before(self):
        disk = self.mount("1m")
        self.hub.add(NAME, LARGE)
        self.assert_fails(r"the disk of .* has [01]\.. MB free, and this model needs 3\.. MB more",
                          "HF_HUB_CACHE", HF_HUB_CACHE=disk)
        self.assertEqual(self.hub.count("GET", WEIGHTS), 0)

    def test_a_disk_that_fills_meanwhile(self):
        disk = self.mount("4m")
        self.hub.add(NAME, LARGE)

        def fill(path):
            filler = os.path.join(disk, "filler")
            if path == WEIGHTS and not os.path.exists(filler):
                with open(filler, "wb") as file:
                    file.write(b"x" * 2_500_000)
            return 0

        self.hub.pause = fill
        self.assert_fails("no space is left for", "kept for the next attempt", HF_HUB_CACHE=disk)
        self.assertGreater(max(self.partial_files().values()), 0)
        os.unlink(os.path.join(disk, "filler"))
        self.hub.pause = lambda path: 0
        self.assert_snapshot(self.download(HF_HUB_CACHE=disk), LARGE)
        self.assertRegex(self.log, "going on after")

    def test_a_limit_of_file_sizes(self):
        self.hub.add(NAME, LARGE)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        process = self.start_download(preexec=limit)
        out, err = process.communicate(timeout=time_limit(30))
        self.assertEqual((process.returncode, out), (1, ""))
        self.assertRegex(err, "would be larger than this process or its file system may have files")
        self.assert_nothing_half()
        self.assert_snapshot(self.download(), LARGE)

    def test_a_cache_that_cannot_be_written_to(self):
        self.hub.add(NAME, SMALL)
        with open(os.path.join(self.home, "file"), "wb"):
            pass
        self.assert_fails("cannot make the folder", "set HF_HUB_CACHE", HF_HUB_CACHE=self.home + "/file/hub")


class ProgressTest(HubTest):
    def test_a_terminal_has_a_bar_with_rate_and_time_left(self):
        self.hub.add(NAME, LARGE)
        self.hub.pause = lambda path: 0.05 if path == WEIGHTS else 0
        master, slave = pty.openpty()
        process = subprocess.Popen([BINARY, "download", NAME], env=environment(self.environment()), stderr=slave,
                                   stdout=subprocess.PIPE)
        os.close(slave)
        shown = b""
        while process.poll() is None or select.select([master], [], [], 0)[0]:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    shown += os.read(master, 65536)
                except OSError:
                    break
        os.close(master)
        text = shown.decode()
        process.communicate()
        self.assertEqual(process.returncode, 0, text)
        self.assertRegex(text, r"model.safetensors  \[=+> *\]  [ \d]+ %  \d\.\d MB of 3\.0 MB  \d+\.\d MB/s  \d+ s left")
        self.assertRegex(text, r"model.safetensors  3\.0 MB  in \d+ s  \(\d+\.\d MB/s\)\r?\n")

    def test_a_log_has_a_line_now_and_then(self):
        self.hub.add(NAME, LARGE)
        self.hub.pause = lambda path: 0.25 if path == WEIGHTS else 0
        self.download()
        self.assertRegex(self.log, r"info model.safetensors  \[=*> *\]  [ \d]+ %  \d\.\d MB of 3\.0 MB")
        self.assertRegex(self.log, r"info fetched model.safetensors  3\.0 MB")
        self.assertLess(len(self.log.splitlines()), 8)


if __name__ == "__main__":
    unittest.main()
