"""A hub as Hugging Face's, over HTTP or HTTPS: the listing of a model, files by revision, large files behind signed
addresses on another host, ranges, ETags. What it does wrong is set by the tests.

    with ModelHub() as hub:
        hub.add("org/name", {"config.json": b"…", "model.safetensors": b"…"})
        … HF_ENDPOINT=hub.endpoint …
        hub.requests          # what came, in order
"""

import hashlib
import http.server
import json
import os
import re
import ssl
import socket
import threading
import time
import urllib.parse

# Characters that a client that "cleans" addresses would change.
ODD_QUERY = "X-Sig=a%2Fb%2fc+d%20e~f'g(h)*i%7E&Expires=1&k[]=%E2%82%ac&response=inline;%20filename%3D%22x%22&empty="


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def etag_of(path, content):
    return hashlib.sha256(content).hexdigest() if is_large(path) else git_sha1(content)


def is_large(path):
    """Whether the file is in Git LFS, and so behind a redirect."""
    return path.endswith((".safetensors", ".gguf", ".bin")) or path == "tokenizer.json"


class Model:
    def __init__(self, files, commit, revisions):
        self.files = dict(files)
        self.commit = commit
        self.revisions = {*revisions, commit}
        self.token = None  # whoever lacks it is refused
        self.gated = False


class Request:
    def __init__(self, host, method, path, headers):
        self.host = host  # "hub" or "cdn"
        self.method = method
        self.path = path
        self.headers = {name.lower(): value for name, value in headers.items()}

    def __repr__(self):
        return f"{self.host} {self.method} {self.path} {self.headers.get('range', '')}"


class ModelHub:
    def __init__(self, tls=None):
        """`tls`: (certificate, key) files for both hosts."""
        self.models = {}
        self.requests = []
        self.lock = threading.Lock()
        # What goes wrong. Each may be replaced by a test.
        self.before = lambda handler, request: False  # answers by itself if it returns true
        self.altered = lambda path, content: content  # what is sent instead of the content
        self.announced_size = lambda path, size: size
        self.announced_etag = lambda path, etag: etag
        self.cut_after = lambda path: None   # bytes of an answer's body, then the connection breaks
        self.pause = lambda path: 0          # seconds between pieces of 64 kB
        self.has_ranges = True
        self.small_files_elsewhere = False   # as Hugging Face redirects small files on its own host
        self.servers = []
        scheme = "https" if tls else "http"
        for name, address in (("hub", "127.0.0.1"), ("cdn", "127.0.0.2")):
            server = self._server(name, address, tls)
            self.servers.append(server)
            setattr(self, "endpoint" if name == "hub" else "cdn", f"{scheme}://{address}:{server.server_address[1]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, name, files, revisions=("main",)):
        digest = hashlib.sha1()
        for path in sorted(files):
            digest.update(path.encode() + b"\0" + files[path])
        model = Model(files, digest.hexdigest(), revisions)
        self.models[name] = model
        return model

    def count(self, method=None, containing=""):
        return len(self.seen(method, containing))

    def seen(self, method=None, containing=""):
        with self.lock:
            return [request for request in self.requests
                    if (method is None or request.method == method) and containing in request.path]

    def forget(self):
        with self.lock:
            self.requests.clear()

    def _server(self, name, address, tls):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def log_message(self, *_):
                pass

            def do_GET(self):
                request = Request(name, self.command, self.path, self.headers)
                with hub.lock:
                    hub.requests.append(request)
                try:
                    if not hub.before(self, request):
                        hub.answer(self, request)
                except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                    self.close_connection = True

            do_HEAD = do_GET

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 64

            def handle_error(self, *_):
                pass

        server = Server((address, 0), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            # The handshake belongs to the connection's thread: one that never comes must not hold up the others.
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    # Answers -----------------------------------------------------------------------------------------------------

    def reply(self, handler, status, headers=(), body=b""):
        handler.send_response(status)
        for header in headers:
            handler.send_header(*header)
        if not any(name == "Content-Length" for name, _ in headers):
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    def refuse(self, handler, status, code=None, message=None, more=()):
        headers = [*more]
        if code:
            headers.append(("X-Error-Code", code))
        if message:
            headers.append(("X-Error-Message", message))
        self.reply(handler, status, headers, b'{"error": "refused"}')

    def answer(self, handler, request):
        if request.host == "cdn":
            return self.signed(handler, request)
        listing = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/([^/]+)", request.path)
        if listing:
            return self.listing(handler, request, listing[1], urllib.parse.unquote(listing[2]))
        file = re.fullmatch(r"(/elsewhere)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", request.path)
        if file:
            return self.file(handler, request, *map(urllib.parse.unquote, file.groups()[1:]), bool(file[1]))
        return self.refuse(handler, 404)

    def find(self, handler, request, name, revision, listing):
        model = self.models.get(name)
        allowed = model and (model.token is None or
                             request.headers.get("authorization") == f"Bearer {model.token}")
        if model is None or (not allowed and not model.gated):
            known = "authorization" in request.headers
            self.refuse(handler, 404 if known else 401, "RepoNotFound",
                        "Repository not found" if known else "Invalid username or password.")
            return None
        if not allowed and not listing:  # everybody may see the list
            self.refuse(handler, 403 if "authorization" in request.headers else 401, "GatedRepo",
                        f"Access to model {name} is restricted.")
            return None
        if revision not in model.revisions:
            self.refuse(handler, 404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return model

    def listing(self, handler, request, name, revision):
        model = self.find(handler, request, name, revision, True)
        if model:
            siblings = [{"rfilename": path} for path in [".gitattributes", "README.md", *model.files]]
            body = json.dumps({"id": name, "sha": model.commit, "siblings": siblings}).encode()
            self.reply(handler, 200, [("Content-Type", "application/json")], body)

    def file(self, handler, request, name, revision, path, elsewhere):
        model = self.find(handler, request, name, revision, False)
        if not model:
            return
        content = model.files.get(path)
        if content is None:
            return self.refuse(handler, 404, "EntryNotFound", "Entry not found")
        etag = self.announced_etag(path, etag_of(path, content))
        size = self.announced_size(path, len(content))
        headers = [("X-Repo-Commit", model.commit), ("Accept-Ranges", "bytes")]
        if is_large(path):
            headers += [("X-Linked-Etag", f'"{etag}"'), ("X-Linked-Size", str(size)), ("ETag", '"of-the-redirect"'),
                        ("Location", f"{self.cdn}/blobs/{name}/{path}?{ODD_QUERY}")]
            return self.reply(handler, 302, headers, b"Found. Redirecting")
        if self.small_files_elsewhere and not elsewhere:
            headers += [("Location", f"/elsewhere{request.path}"), ("ETag", '"of-the-redirect"'),
                        ("X-Linked-Etag", f'"{etag}"'), ("X-Linked-Size", str(size))]
            return self.reply(handler, 307, headers, b"Temporary Redirect")
        return self.content(handler, request, path, content, [*headers, ("ETag", f'W/"{etag}"')], size)

    def signed(self, handler, request):
        path, _, query = request.path.partition("?")
        found = re.fullmatch(r"/blobs/([^/]+/[^/]+)/(.+)", path)
        if query != ODD_QUERY or not found or found[1] not in self.models:
            return self.refuse(handler, 403)
        content = self.models[found[1]].files[found[2]]
        return self.content(handler, request, found[2], content, [("ETag", '"of-the-cdn"')], None)

    def content(self, handler, request, path, content, headers, announced):
        if request.method == "HEAD":
            return self.reply(handler, 200, [*headers, ("Content-Length", str(announced))])
        content = self.altered(path, content)
        begin, status = 0, 200
        wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
        if wanted and self.has_ranges:
            begin, status = int(wanted[1]), 206
            if begin >= len(content):
                return self.reply(handler, 416, [("Content-Range", f"bytes */{len(content)}")])
            headers = [*headers, ("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")]
        handler.send_response(status)
        for header in [*headers, ("Content-Length", str(len(content) - begin))]:
            handler.send_header(*header)
        handler.end_headers()
        cut = self.cut_after(path)
        end = len(content) if cut is None else min(len(content), begin + cut)
        pause = self.pause(path)
        step = (1 << 16) if pause else max(1, end - begin)
        for at in range(begin, end, step):
            handler.wfile.write(content[at:min(end, at + step)])
            if pause:
                time.sleep(pause)
        if end < len(content):
            handler.close_connection = True
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)


def folder_files(folder, skip=()):
    """{path: content} of the files in a folder."""
    files = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(parent, name), folder)
            if not path.startswith(tuple(skip)):
                with open(os.path.join(parent, name), "rb") as file:
                    files[path] = file.read()
    return files
