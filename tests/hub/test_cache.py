"""What lies in the cache afterwards, what is asked for, and that what other tools left is used."""

import os
import sys
import unittest

import numpy as np

from hub_test import MINI, MODEL, NAME, SMALL, HubTest, json_of
from model_hub import etag_of

from espalier_server import Server, golden, json_lines

DRESSED = {**SMALL,
           "pytorch_model.bin": b"p" * 1000, "onnx/model.onnx": b"o" * 1000, "extra.gguf": b"g" * 1000,
           "openvino/config.json": b"{}", "generation_config.json": b"{}", "vocab.json": b"{}",
           "tokenizer_config.json": b"{}", "special_tokens_map.json": b"{}", "sentence_bert_config.json": b"{}",
           "config_sentence_transformers.json": b"{}", "chat_template.jinja": b"{{ x }}",
           "additional_chat_templates/rerank.jinja": b"{{ y }}",
           "modules.json": b'[{"type": "sentence_transformers.models.Transformer", "path": ""},'
                           b'{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},'
                           b'{"type": "sentence_transformers.models.Dense", "path": "2_Dense"},'
                           b'{"type": "sentence_transformers.models.Normalize", "path": "3_Normalize"}]',
           "1_Pooling/config.json": b'{"p": 1}', "2_Dense/config.json": b'{"d": 1}',
           "2_Dense/model.safetensors": b"dense" * 10, "2_Dense/pytorch_model.bin": b"d"}
NEEDED = {"config.json", "tokenizer.json", "model.safetensors", "tokenizer_config.json", "special_tokens_map.json",
          "sentence_bert_config.json", "config_sentence_transformers.json", "chat_template.jinja",
          "additional_chat_templates/rerank.jinja", "modules.json", "1_Pooling/config.json", "2_Dense/config.json",
          "2_Dense/model.safetensors"}


class LayoutTest(HubTest):
    def test_what_is_needed_lies_as_hugging_faces_tools_lay_it(self):
        self.hub.add(NAME, DRESSED)
        for elsewhere in (False, True):
            self.hub.small_files_elsewhere = elsewhere
            self.assert_snapshot(self.download(), NEEDED)
            locks = os.listdir(os.path.join(self.cache, ".locks", "models--espalier--mini"))
            self.assertEqual(set(locks), {etag_of(path, DRESSED[path]) + ".lock" for path in NEEDED})
            self.cache, self.home = self.home + "/again/hub", self.home + "/again"

    def test_shards_instead_of_one_file(self):
        index = b'{"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}'
        files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors.index.json": index,
                 "model-1-of-2.safetensors": b"1" * 100, "model-2-of-2.safetensors": b"2" * 100}
        self.hub.add(NAME, {**files, "model-3-of-3.safetensors": b"3", "consolidated.safetensors": b"4"})
        self.assert_snapshot(self.download(), set(files))

    def test_a_branch_a_tag_a_pull_request_and_a_commit(self):
        model = self.hub.add(NAME, SMALL, revisions=("main", "v1.0", "refs/pr/1"))
        path = self.download()
        for revision in ("v1.0", "refs/pr/1"):
            self.assertEqual(self.download(f"{NAME}@{revision}"), path)
            with open(os.path.join(self.repository(), "refs", revision), encoding="ascii") as ref:
                self.assertEqual(ref.read(), model.commit)
        self.assertEqual(self.download(f"{NAME}@{model.commit}"), path)
        self.assertFalse(os.path.exists(os.path.join(self.repository(), "refs", model.commit)))

    def test_a_new_commit_takes_only_what_has_changed(self):
        self.hub.add(NAME, SMALL)
        old = self.download()
        self.hub.add(NAME, {**SMALL, "config.json": b'{"new": 1}'})
        self.hub.forget()
        new = self.download()
        self.assert_snapshot(new, SMALL)
        self.assertNotEqual(new, old)
        self.assertEqual([request.path.rsplit("/", 1)[1] for request in self.hub.seen("GET", "/resolve/")],
                         ["config.json"])

    def test_where_there_are_no_links_files_lie_in_the_snapshot(self):
        source = os.path.join(self.home, "no_links.c")
        library = os.path.join(self.home, "no_links.so")
        with open(source, "w", encoding="ascii") as file:
            file.write('#include <errno.h>\nint symlink(const char *a, const char *b)'
                       '{ (void)a; (void)b; errno = EPERM; return -1; }\n')
        self.assertEqual(os.system(f"cc -shared -fPIC -o {library} {source}"), 0)
        self.hub.add(NAME, DRESSED)
        # A sanitizer's library must come first, where there is one.
        preload = os.environ.get("LD_PRELOAD", "")
        path = self.download(LD_PRELOAD=f"{preload} {library}".strip())
        for file in NEEDED:
            self.assertFalse(os.path.islink(os.path.join(path, file)), file)
            with open(os.path.join(path, file), "rb") as content:
                self.assertTrue(content.read() == DRESSED[file], file)
        self.hub.forget()
        self.assertEqual(self.download(), path)
        self.assertEqual(self.hub.count(), 1)


class RequestsTest(HubTest):
    def test_what_is_there_costs_one_request_or_none(self):
        model = self.hub.add(NAME, SMALL)
        path = self.download()
        self.hub.forget()
        self.assertEqual(self.download(), path)
        self.assertEqual([request.path for request in self.hub.requests],
                         ["/api/models/espalier/mini/revision/main"])
        self.hub.forget()
        self.assertEqual(self.download(f"{NAME}@{model.commit}"), path)
        for value in ("1", "on", "YES", "True"):
            self.assertEqual(self.download(HF_HUB_OFFLINE=value), path)
        self.assertEqual(self.download(HF_HUB_OFFLINE="", TRANSFORMERS_OFFLINE="1"), path)
        self.assertEqual(self.hub.requests, [])

    def test_without_a_network_what_is_cached_is_used_with_a_warning(self):
        self.hub.add(NAME, SMALL)
        path = self.download()
        self.assertEqual(self.download(HF_ENDPOINT="http://127.0.0.1:9"), path)
        self.assertRegex(self.log, r"no connection to http://127.0.0.1:9; using espalier/mini as it is in the cache")
        self.hub.before = lambda handler, _: self.hub.refuse(handler, 503) or True
        self.assertEqual(self.download(), path)
        self.assertRegex(self.log, r"answers 503.*using")

    def test_a_newer_commit_that_cannot_be_fetched_leaves_the_old_one_in_use(self):
        self.hub.add(NAME, SMALL)
        path = self.download()
        self.hub.add(NAME, {**SMALL, "model.safetensors": b"new" * 1000})
        self.hub.before = lambda handler, request: request.host == "cdn" and (
            self.hub.refuse(handler, 500, more=[("Retry-After", "1")]) or True)
        self.assertEqual(self.download(), path)
        self.assertRegex(self.log, "using espalier/mini as it is in the cache")
        self.assertEqual(self.download(HF_HUB_OFFLINE="1"), path)

    def test_offline_says_what_is_missing(self):
        self.assert_fails("HF_HUB_OFFLINE is set", "not in the cache", "espalier download", HF_HUB_OFFLINE="1")
        cases = (({"config.json"}, "tokenizer.json, model.safetensors"), ({"config.json", "tokenizer.json"},
                                                                          "lacks model.safetensors"))
        for number, (there, missing) in enumerate(cases):
            name = f"espalier/part{number}"
            self.fill_cache_by_hand({path: SMALL[path] for path in there}, name=name)
            self.assert_fails("HF_HUB_OFFLINE is set", missing, name=name, HF_HUB_OFFLINE="1")
        modules = {path: DRESSED[path] for path in NEEDED - {"2_Dense/model.safetensors"}}
        self.fill_cache_by_hand(modules, name="espalier/modules")
        self.assert_fails("lacks 2_Dense/model.safetensors;", name="espalier/modules", HF_HUB_OFFLINE="1")
        index = b'{"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}'
        shards = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors.index.json": index,
                  "model-1-of-2.safetensors": b"1"}
        self.fill_cache_by_hand(shards, name="espalier/shards")
        self.assert_fails("lacks model-2-of-2.safetensors;", name="espalier/shards", HF_HUB_OFFLINE="1")
        self.assertEqual(self.hub.requests, [])

    def test_the_cache_is_found_by_the_same_variables(self):
        self.hub.add(NAME, {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"w"})
        cases = (({"HF_HUB_CACHE": "~/a", "HF_HOME": self.home + "/x"}, "a"),
                 ({"HUGGINGFACE_HUB_CACHE": self.home + "/b"}, "b"), ({"HF_HOME": "~/c"}, "c/hub"),
                 ({"HF_HOME": "", "XDG_CACHE_HOME": self.home + "/d"}, "d/huggingface/hub"),
                 ({"HF_HOME": "", "XDG_CACHE_HOME": ""}, ".cache/huggingface/hub"))
        for variables, folder in cases:
            path = self.download(**variables)
            self.assertTrue(path.startswith(os.path.join(self.home, folder, "models--espalier--mini")), path)

    def test_a_snapshot_that_another_tool_filled_in_part_is_completed(self):
        model = self.hub.add(NAME, DRESSED)
        self.fill_cache_by_hand(SMALL, commit=model.commit)  # transformers asks for no modules.json
        path = self.download(f"{NAME}@{model.commit}")
        self.assert_snapshot(path, NEEDED)


class UseTest(HubTest):
    """The bundled model, as the content of a repository, through the commands."""

    def check_embeddings(self, arguments, **env):
        expected = golden()["embeddings"] if "embeddings" in golden() else None
        texts = ["a tree trained to grow flat", "salt"]
        stdin = json_lines({"text": text} for text in texts)
        local = self.run_command("embed", "--model", MODEL, stdin=stdin)
        named = self.run_command("embed", *arguments, stdin=stdin, **env)
        self.assertEqual(named.returncode, 0, named.stderr)
        self.assertEqual(named.stdout, local.stdout)
        self.assertTrue(expected is None or local.stdout)

    def test_a_model_is_fetched_and_used(self):
        self.hub.add(NAME, MINI)
        self.check_embeddings(["--model", NAME])

    def test_a_cache_made_by_hand_is_used_without_a_request(self):
        snapshot = self.fill_cache_by_hand({**MINI, "README.md": b"#", ".gitattributes": b"*"}, commit="0123456789" * 4)
        self.check_embeddings(["--model", NAME], HF_HUB_OFFLINE="1")
        self.check_embeddings(["--model", f"{NAME}@{'0123456789' * 4}"])
        done = self.run_command("inspect", "--model", NAME, HF_HUB_OFFLINE="1")
        self.assertIn(snapshot, done.stdout)
        self.assertEqual(self.hub.requests, [])

    def test_it_is_served_under_its_name(self):
        self.fill_cache_by_hand(MINI)
        server = Server(model=NAME, env=self.environment(HF_HUB_OFFLINE="1"))
        self.addCleanup(server.kill)
        self.assertEqual([model["id"] for model in server.get("/v1/models").json()["data"]][:1], [NAME])
        self.assertEqual(server.embed(["salt"]).shape, (1, 256))
        self.assertEqual(self.hub.requests, [])

    def test_a_folder_of_that_name_wins(self):
        os.makedirs(os.path.join(self.home, "espalier"))
        os.symlink(MODEL, os.path.join(self.home, NAME))
        from hub_test import run_espalier
        done = run_espalier("tokenize", "--model", NAME, env=self.environment(), cwd=self.home,
                            stdin='{"text": "salt"}\n')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.hub.requests, [])


class ModelsTest(HubTest):
    def test_lists_what_is_cached(self):
        done = self.run_command("models")
        self.assertRegex(done.stdout, "no models in .*espalier download")
        self.assertEqual(json_of(self.run_command("models", "--json"))["models"], [])

        model = self.hub.add(NAME, SMALL)
        self.download()
        self.fill_cache_by_hand({"config.json": b"{}"}, name="z/part", commit="b" * 40)
        self.fill_cache_by_hand({"z-Q8_0.gguf": b"g" * 500}, name="z/gguf", commit="c" * 40)
        os.makedirs(os.path.join(self.cache, "datasets--a--b", "snapshots", "d" * 40))
        with open(os.path.join(self.repository("z/part"), "blobs", "e" * 64 + ".incomplete"), "wb") as file:
            file.write(b"x" * 300)
        found = json_of(self.run_command("models", "--json"))
        self.assertEqual(found["cache"], self.cache)
        self.assertEqual(found["models"], [
            {"model": NAME, "revisions": ["main"], "commit": model.commit,
             "bytes": sum(map(len, SMALL.values())), "partial_bytes": 0, "complete": True, "missing": [], "gguf": []},
            {"model": "z/gguf", "revisions": ["main"], "commit": "c" * 40, "bytes": 500, "partial_bytes": 0,
             "complete": True, "missing": [], "gguf": ["z-Q8_0.gguf"]},
            {"model": "z/part", "revisions": ["main"], "commit": "b" * 40, "bytes": 2, "partial_bytes": 300,
             "complete": False, "missing": ["tokenizer.json", "model.safetensors"], "gguf": []}])
        lines = self.run_command("models").stdout.splitlines()
        self.assertEqual(lines[0].split(), ["MODEL", "REVISION", "COMMIT", "SIZE", "STATE"])
        self.assertEqual(len({line.index(word) for line, word in zip(lines, ("STATE", "complete", "complete",
                                                                             "incomplete"))}), 1, lines)
        self.assertRegex(lines[3], "incomplete: lacks tokenizer.json, model.safetensors")
        self.assertEqual(self.hub.count(containing="z/"), 0)


class GgufTest(HubTest):
    FILES = {f"Mini-{kind}.gguf": kind.encode() * 100 for kind in ("f16", "Q4_K", "Q4_K_M", "Q8_0")}

    def test_one_of_several_is_named(self):
        self.hub.add(NAME, {**self.FILES, "mmproj-Mini-f16.gguf": b"m", "config.json": b"{}"})
        stderr = self.assert_fails("several GGUF files", r"espalier/mini:Mini-", "Mini-Q8_0.gguf")
        self.assertNotIn("mmproj", stderr)
        for wanted, file in (("Q8_0", "Mini-Q8_0.gguf"), ("q4_k", "Mini-Q4_K.gguf"), ("F16", "Mini-f16.gguf"),
                             ("Mini-Q4_K_M.gguf", "Mini-Q4_K_M.gguf")):
            path = self.download(f"{NAME}:{wanted}")
            self.assertTrue(path.endswith("/" + file), path)
            with open(path, "rb") as content:
                self.assertEqual(content.read(), self.FILES[file])
            self.hub.forget()
            self.assertEqual(self.download(f"{NAME}@{self.hub.models[NAME].commit}:{wanted}"), path)
            self.assertEqual(self.hub.requests, [])
        self.assert_fails("no GGUF file 'Q5_K'", "Mini-Q8_0.gguf", name=f"{NAME}:Q5_K")

    def test_the_only_one_needs_no_name(self):
        self.hub.add(NAME, {"a.gguf": b"gguf"})
        path = self.download()
        self.assertTrue(path.endswith("/a.gguf"), path)
        self.assertEqual(self.download(HF_HUB_OFFLINE="1"), path)

    def test_where_there_are_safetensors_they_win_unless_a_file_is_named(self):
        self.hub.add(NAME, {**SMALL, "a-Q8_0.gguf": b"gguf"})
        self.assert_snapshot(self.download(), SMALL)
        self.assertTrue(self.download(NAME + ":Q8_0").endswith("/a-Q8_0.gguf"))

    def test_parts_of_a_file_are_refused(self):
        self.hub.add(NAME, {"a-Q8_0-00001-of-00002.gguf": b"1", "a-Q8_0-00002-of-00002.gguf": b"2"})
        self.assert_fails("one of several parts", name=NAME + ":Q8_0")


if __name__ == "__main__":
    unittest.main()
