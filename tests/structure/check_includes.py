#!/usr/bin/env python3
"""Checks who includes whom (docs/ARCHITECTURE.md): check_includes.py SOURCE_DIR

Folders see only what is listed for them, heavy third-party headers are included by one file, and
nlohmann's JSON by no header. Prints every violation; exit code 1 if there are any.
"""
import re
import sys
from pathlib import Path

# folder -> folders of ours that it may include, besides itself
ALLOWED = {
    "text": set(),
    "engine": set(),
    "models": {"engine"},
    "scheduler": {"engine"},
    "hub": set(),
    "server": {"text", "scheduler", "engine"},
    "server/commands": {"server", "text", "scheduler", "models", "engine", "hub"},
}
# Of engine/, server/ and scheduler/ see the contract alone.
CONTRACT = {"engine/batch_plan.h", "engine/forward_pass.h", "engine/mat_view.h"}
CONTRACT_ONLY = {"server", "scheduler"}
# third-party header -> the files that may include it
SOLE_INCLUDERS = {
    "httplib.h": {"server/http/http_codec.cpp", "hub/http_client.cpp"},
    "cblas.h": {"engine/sgemm.cpp"},
    "dnnl.hpp": {"engine/onednn_gemm.cpp"},
    "toml++/toml.h": {"server/commands/options_file.cpp"},
    "CLI/CLI.hpp": {"server/commands/option_table.h"},
    "pcre2.h": {"text/split_pattern.cpp"},
}
SOLE_PREFIXES = {
    "openssl/": {"server/access/key_digest.cpp", "server/http/tls.cpp", "hub/content_hash.cpp"},
    "prometheus/": {"server/observe/metric_families.h", "server/observe/metrics.cpp",
                    "server/observe/process_metrics.h"},
    "unicode/": {"text/unicode_normalizer.cpp"},
}
NOT_IN_HEADERS = {"nlohmann/json.hpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def folder_of(path):
    if path.startswith("server/commands/") or path == "server/main.cpp":
        return "server/commands"
    return path.split("/")[0]


def violations(path, text):
    """The rule breaches of one file, as sentences. `path` is relative to the source tree."""
    folder = folder_of(path)
    for included in INCLUDE.findall(text):
        target = folder_of(included) if "/" in included else None
        if target in ALLOWED and target != folder:
            if target not in ALLOWED[folder]:
                yield f"{path} includes {included}: {folder}/ may not see {target}/"
            elif folder in CONTRACT_ONLY and target == "engine" and included not in CONTRACT:
                yield f"{path} includes {included}: {folder}/ may see only {', '.join(sorted(CONTRACT))}"
        owners = SOLE_INCLUDERS.get(included)
        for prefix, prefix_owners in SOLE_PREFIXES.items():
            if included.startswith(prefix):
                owners = prefix_owners
        if owners is not None and path not in owners:
            yield f"{path} includes {included}: only {', '.join(sorted(owners))} may"
        if included in NOT_IN_HEADERS and path.endswith(".h"):
            yield f"{path} includes {included}: no header may"


def main():
    root = Path(sys.argv[1])
    found, files = [], 0
    for folder in ("text", "engine", "models", "scheduler", "hub", "server"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in (".h", ".cpp"):
                files += 1
                found += violations(file.relative_to(root).as_posix(), file.read_text())
    print("\n".join(found) or f"{files} files follow the rules")
    if files == 0:
        sys.exit(f"no sources under {root}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
