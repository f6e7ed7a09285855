"""Builds docker/Dockerfile for the tests, by buildah, on a Debian made by debootstrap: no registry is asked.

Images lie in a store of their own, in the build folder: what has not changed is not built again. `build()` gives an Image,
or raises NotHere with what this machine lacks.
"""

import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = os.path.join(os.environ["ESPALIER_BUILD_DIR"], "container")
MIRROR = "http://deb.debian.org/debian"
BASE = "localhost/debian:12"
TAG = "localhost/espalier:test"
STORE_BYTES_MAX = 6 << 30


class NotHere(Exception):
    """Why no image can be built or run on this machine."""


def need(*programs):
    if os.geteuid() != 0:
        raise NotHere("building and running a container without an engine takes root")
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise NotHere(f"{', '.join(missing)}: not installed")


def run(*arguments, **settings):
    """Output of a command that must succeed."""
    done = subprocess.run(list(map(str, arguments)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", check=False, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, arguments))}: {done.stdout[-2000:]}{done.stderr[-6000:]}")
    return done.stdout.strip()


def buildah(command, *arguments):
    return run("buildah", "--root", os.path.join(FOLDER, "storage"), "--runroot", os.path.join(FOLDER, "run"), command,
               *arguments)


def has_image(name):
    return any(name in (image["names"] or []) for image in json.loads(buildah("images", "--json") or "[]"))


def make_base():
    """Debian 12 as debootstrap makes it, as an image; once."""
    if has_image(BASE):
        return
    root = os.path.join(FOLDER, "debian")
    shutil.rmtree(root, ignore_errors=True)
    try:
        run("debootstrap", "--variant=minbase", "bookworm", root, MIRROR)
    except AssertionError as error:
        raise NotHere(f"debootstrap made no Debian, perhaps {MIRROR} cannot be reached: {error}") from error
    container = buildah("from", "scratch")
    buildah("add", container, root, "/")
    buildah("commit", container, BASE)
    buildah("rm", container)
    shutil.rmtree(root)


def commit():
    done = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def bytes_of(root):
    """What files below a folder take; each once, whatever its names."""
    sizes = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            status = os.lstat(os.path.join(folder, name))
            sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


class Image:
    """`root`: its files, mounted; `config`: what it says of how to run it; `commit`: what it was told to be made of."""

    def __init__(self, tag=TAG, revision=None):
        self.commit = revision
        self.container = buildah("from", tag)
        self.root = buildah("mount", self.container)
        self.config = json.loads(buildah("inspect", "--type", "image", tag))["Docker"]["config"]

    def close(self):
        buildah("rm", self.container)

    def bytes(self, below="."):
        return bytes_of(os.path.join(self.root, below))


def build():
    need("buildah", "debootstrap", "runc")
    os.makedirs(FOLDER, exist_ok=True)
    make_base()
    revision = commit()
    if bytes_of(FOLDER) > STORE_BYTES_MAX:
        buildah("rm", "--all")  # of tests that were killed
        buildah("rmi", "--prune")  # layers of builds before
    # chroot: the steps of the build need no namespaces of their own, and so it works within containers.
    try:
        buildah("build", "--format", "docker", "--isolation", "chroot", "--layers", "--force-rm", "--pull-never",
                "--build-arg", f"BASE={BASE}", "--build-arg", f"REVISION={revision}",
                "-f", os.path.join(SOURCE, "docker", "Dockerfile"), "-t", TAG, SOURCE)
    except AssertionError as error:
        if re.search(r"Failed to fetch|Temporary failure resolving", str(error)):
            raise NotHere(f"{MIRROR} cannot be reached: {error}") from error
        raise
    return Image(TAG, revision)
