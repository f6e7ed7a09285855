#!/usr/bin/env python3
"""Writes inputs for the fuzz targets to start from: a small valid file of every kind that is read.

    make_seeds.py FOLDER        FOLDER/TARGET/…

Everything is as small as its reader allows, so that most mutations hit something that is read.
"""
import json
import struct
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/gguf"))

from block_formats import BLOCK_FORMATS  # noqa: E402
from gguf_writer import PLAIN_TYPES, write_gguf  # noqa: E402

SPACE = "\u2581"
QWEN_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
              r"|\s+(?!\S)|\s+")
LLAMA3_WORDS = QWEN_WORDS.replace(r"\p{N}| ?", r"\p{N}{1,3}| ?")


def byte_entries():
    """The 256 characters of byte-level BPE, by byte."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    entries = {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [entries[byte] for byte in range(256)]


# tokenizer.json

def tokenizer_json(model, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": {"type": "BPE", **model}} | parts


def added_token(content, number, **flags):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True} | flags


def ends_with(content, number):
    token = {"SpecialToken": {"id": content, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, token],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {content: {"id": content, "ids": [number], "tokens": [content]}}}


def byte_level(pattern, **model):
    vocabulary = {entry: i for i, entry in enumerate([*byte_entries(), "ab", "abc", "Ġa"])}
    words = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]}
    return tokenizer_json({"vocab": vocabulary, "merges": [["a", "b"], ["ab", "c"], ["Ġ", "a"]], **model},
                          added_tokens=[added_token("<x>", 259), added_token(" <y>", 260, special=False, lstrip=True)],
                          pre_tokenizer=words, post_processor=ends_with("<x>", 259),
                          decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True})


def llama2():
    entries = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "b", SPACE, "ab", SPACE + "a"]
    return tokenizer_json(
        {"vocab": {entry: i for i, entry in enumerate(entries)}, "merges": ["a b", f"{SPACE} a"], "unk_token": "<unk>",
         "byte_fallback": True, "fuse_unk": True},
        added_tokens=[added_token("<s>", 1), added_token("</s>", 2, normalized=True)],
        normalizer={"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": SPACE},
            {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}]},
        decoder={"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})


def tokenizer_seeds():
    mistral = llama2() | {"normalizer": None, "pre_tokenizer": {
        "type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}}
    files = {"qwen": byte_level(QWEN_WORDS) | {"normalizer": {"type": "NFC"}},
             "llama3": byte_level(LLAMA3_WORDS, ignore_merges=True), "llama2": llama2(), "mistral": mistral}
    for name, file in files.items():
        yield name, b"\1\xff" + json.dumps(file, ensure_ascii=False).encode()
        for slot, key in enumerate(("added_tokens", "normalizer", "pre_tokenizer", "post_processor")):
            if file[key] is not None:
                yield f"{name}-{key}", bytes([1, slot]) + json.dumps(file[key]).encode()
    yield "pattern", b"\1\6" + LLAMA3_WORDS.encode()
    yield "decoder", b"\3\3" + json.dumps(llama2()["decoder"]).encode()
    yield "text", b"\0" + "abcab  e\u0301 <|im_end|>\n\u6f22\u5b57 12's \u2581".encode()


# Rerank templates

def template_seeds():
    def content(role):
        return f'messages | selectattr("role", "eq", "{role}") | map(attribute="content")'

    turns = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in (
        ("system", "{instruction}"), ("user", "<q>: {query}\n<d>: {document}")))
    yield "plain", b"\0" + turns.encode()
    jinja = {
        "first": "{{ " + content("query") + " | first }}/{{ " + content("document") + " | first }}",
        "number": "{{ messages[0]['content'] }}/{{ messages[-1].content | trim }}",
        "instruction": "{{ instruction | default(" + content("system") + " | first | default('Find', true), true) }}: "
                       "{{ (messages | selectattr('role', 'eq', 'query') | first).content }}"
                       "{{ (messages | selectattr('role', 'eq', 'document') | first).content }}",
        "loop": "{%- for message in messages %}{%- if message.role == 'query' %}{{- '<|im_start|>q\\n' + message.content.strip() }}"
                "{%- elif message['role'] == 'document' %}{{- 'd: ' ~ message['content'] | trim + '<|im_end|>' }}"
                "{%- endif %}{%- endfor %}",
        "set": "{#- c -#}{%- set q = " + content("query") + " | list -%}{%- set q = q[0] if q else '' -%}"
               "{%- if instruction is defined and instruction is string -%}{%- set q = q + instruction -%}{%- endif -%}"
               "{{- q ~ (" + content("document") + " | list)[0] -}}"}
    for name, source in jinja.items():
        yield name, b"\1" + source.encode()


# config.json and what lies beside it

SIZES = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 12, "vocab_size": 40, "max_position_embeddings": 1024,
         "rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu", "torch_dtype": "bfloat16",
         "tie_word_embeddings": True}
SCALINGS = ({"rope_type": "linear", "factor": 2.0},
            {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "beta_fast": 32, "beta_slow": 1,
             "attention_factor": 1.1},
            {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False},
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 512}, {"rope_type": "default"})


def configs():
    classes = {"qwen3": "Qwen3", "qwen2": "Qwen2", "llama": "Llama", "mistral": "Mistral"}
    kinds = ("ForCausalLM", "Model", "ForSequenceClassification", "ForCausalLM")
    for (family, prefix), kind in zip(classes.items(), kinds):
        yield family, SIZES | {"model_type": family, "architectures": [prefix + kind]}
    for i, scaling in enumerate(SCALINGS):
        yield f"scaling-{i}", SIZES | {"model_type": "llama", "rope_scaling": scaling, "attention_bias": i % 2 == 0}
    yield "parameters", SIZES | {"model_type": "qwen3", "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"},
                                 "layer_types": ["full_attention"], "use_sliding_window": False, "dtype": "float32"}
    yield "window", SIZES | {"model_type": "mistral", "sliding_window": 64, "layer_types": ["sliding_attention"]}
    yield "labels", SIZES | {"model_type": "qwen3", "architectures": ["Qwen3ForSequenceClassification"],
                             "id2label": {"0": "no", "1": "yes"}, "classifier_from_token": ["no", "yes"],
                             "matryoshka_dimensions": [8, 32], "method": "from_2_way_softmax"}
    yield "jina", SIZES | {"model_type": "jina_embeddings_v5", "architectures": ["JinaEmbeddingsV5Model"],
                           "task_names": ["task"], "is_decoder": True, "auto_map": {
                               "AutoConfig": "configuration_jina_embeddings_v5.JinaEmbeddingsV5Config",
                               "AutoModel": "modeling_jina_embeddings_v5.JinaEmbeddingsV5Model"}}
    yield "refused", SIZES | {"model_type": "qwen2", "is_causal": False, "num_experts": 4, "quantization_config": {}}


def safetensors(tensors):
    header, data = {}, b""
    for name, (dtype, shape) in tensors.items():
        size = int(np.prod(shape)) * {"F32": 4, "F16": 2, "BF16": 2, "I8": 1}[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(size)
    return json.dumps({"__metadata__": {"format": "pt"}, **header}).encode(), data


def safetensors_seeds():
    for dtype in ("F32", "F16", "BF16", "I8"):
        header, data = safetensors({"a.weight": (dtype, [4, 8]), "b": ("F32", [3]), "scalar": ("BF16", [])})
        yield dtype, struct.pack("<H", len(data)) + header


def folder_seeds():
    """In the order of fuzz_model_folder.cpp."""
    def package(kind):
        return f"sentence_transformers.models.{kind}"

    modules = [{"idx": i, "name": str(i), "path": path, "type": package(path[2:] or "Transformer")}
               for i, path in enumerate(("", "1_Pooling", "2_Dense", "3_Normalize"))]
    for name, config in configs():
        yield name, 0, config
    yield "modules", 1, modules
    yield "reranker", 1, [modules[0], {"path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.LogitScore"}]
    yield "custom", 1, [{"idx": 0, "name": "0", "path": "", "type": "custom_st.Transformer", "kwargs": ["task"]}]
    yield "pooling", 2, {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True, "include_prompt": True}
    yield "pooling-mode", 2, {"pooling_mode": "cls"}
    yield "dense", 3, {"in_features": 32, "out_features": 4, "bias": False,
                       "activation_function": "torch.nn.modules.linear.Identity"}
    yield "sentence", 4, {"prompts": {"query": "Query: ", "document": ""}, "default_prompt_name": "query", "truncate_dim": 4,
                          "similarity_fn_name": "cosine"}
    yield "bert", 5, {"max_seq_length": 512, "do_lower_case": False}
    yield "logit-score", 6, {"true_token_id": 3, "false_token_id": 4, "module_input_name": "causal_logits"}
    yield "adapter", 7, {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "use_rslora": True, "bias": "none",
                         "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"layers.0.mlp.down_proj": 8},
                         "target_modules": ["q_proj"], "init_lora_weights": "gaussian", "use_dora": False,
                         "modules_to_save": None, "loftq_config": {}}
    prefix = "base_model.model.layers.0.self_attn.q_proj.lora_"
    for number, tensors in ((8, {prefix + "A.weight": ("BF16", [2, 32]), prefix + "B.weight": ("F32", [48, 2])}),
                            (9, {"model.norm.weight": ("F32", [32]), "lm_head.weight": ("F16", [40, 32])}),
                            (11, {"linear.weight": ("F32", [4, 32])})):
        header, data = safetensors(tensors)
        yield f"tensors-{number}", number, struct.pack("<Q", len(header)) + header + data
    yield "index", 10, {"metadata": {"total_size": 1}, "weight_map": {"model.norm.weight": "model.safetensors"}}


# GGUF

def gguf_tokenizers():
    end = {"tokenizer.ggml.bos_token_id": 259, "tokenizer.ggml.eos_token_id": 259, "tokenizer.ggml.add_eos_token": True,
           "tokenizer.ggml.add_bos_token": False}
    for pre in ("qwen2", "llama-bpe", "tekken", "gpt-2"):
        tokens = [*byte_entries(), "ab", "abc", "Ġa", "<x>"]
        yield pre, {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
                    "tokenizer.ggml.token_type": [1] * 259 + [3], "tokenizer.ggml.merges": ["a b", "ab c", "Ġ a"]} | end
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), SPACE, "a", "b", SPACE + "a", "ab"]
    yield "sentencepiece", {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
                            "tokenizer.ggml.scores": [0.0] * 259 + [-4.0, -3.0, -5.0, -1.0, -2.0],
                            "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 5,
                            "tokenizer.ggml.add_space_prefix": True}


def gguf_model(architecture, tokenizer, kind, extra=None, divisors=False):
    hidden = 256 if kind.endswith("_K") else 32
    heads, head = 4, hidden // 4
    rows = len(tokenizer["tokenizer.ggml.tokens"])

    def matrix(rows, columns):
        return np.linspace(-1, 1, rows * columns, dtype=np.float32).reshape(rows, columns)

    tensors = [("token_embd.weight", matrix(rows, hidden), kind), ("output_norm.weight", np.ones(hidden), "F32")]
    products = {"attn_q": (hidden, hidden), "attn_k": (hidden // 2, hidden), "attn_v": (hidden // 2, hidden),
                "attn_output": (hidden, hidden), "ffn_gate": (hidden, hidden), "ffn_up": (hidden, hidden),
                "ffn_down": (hidden, hidden)}
    tensors += [(f"blk.0.{name}.weight", matrix(*shape), kind) for name, shape in products.items()]
    norms = {"attn_norm": hidden, "ffn_norm": hidden}
    if architecture == "qwen3":
        norms |= {"attn_q_norm": head, "attn_k_norm": head}
    tensors += [(f"blk.0.{name}.weight", np.ones(size), "F32") for name, size in norms.items()]
    if architecture == "qwen2":
        tensors += [(f"blk.0.{name}.bias", np.zeros(products[name][0]), "F32") for name in ("attn_q", "attn_k", "attn_v")]
    if divisors:
        tensors.append(("rope_freqs.weight", np.ones(head // 2), "F32"))
    metadata = {"general.architecture": architecture, "general.type": "model", f"{architecture}.block_count": 1,
                f"{architecture}.context_length": 64, f"{architecture}.embedding_length": hidden,
                f"{architecture}.feed_forward_length": hidden, f"{architecture}.attention.head_count": heads,
                f"{architecture}.attention.head_count_kv": 2, f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
                f"{architecture}.rope.freq_base": 1e5, f"{architecture}.pooling_type": 3}
    return metadata | tokenizer | (extra or {}), tensors


def gguf_models():
    tokenizers = dict(gguf_tokenizers())
    qwen, llama3, pieces = tokenizers["qwen2"], tokenizers["llama-bpe"], tokenizers["sentencepiece"]
    for name, tokenizer in tokenizers.items():
        yield f"tokenizer-{name}", gguf_model("qwen3", tokenizer, "Q8_0")
    for kind in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K"):
        yield kind, gguf_model("qwen3", qwen, kind)
    yield "qwen2", gguf_model("qwen2", qwen, "Q8_0")
    yield "llama", gguf_model("llama", pieces, "Q8_0", {"llama.attention.sliding_window": 32, "llama.vocab_size": 264})
    yield "llama3", gguf_model("llama", llama3, "Q8_0", divisors=True)
    for kind in ("linear", "yarn"):
        yield kind, gguf_model("qwen2", qwen, "Q8_0", {"qwen2.rope.scaling.type": kind, "qwen2.rope.scaling.factor": 2.0,
                                                       "qwen2.rope.scaling.original_context_length": 32})
    metadata, tensors = gguf_model("qwen3", qwen, "Q8_0", {"qwen3.classifier.output_labels": ["yes", "no"],
                                                           "qwen3.pooling_type": 4})
    yield "reranker", (metadata, [*tensors, ("cls.output.weight", np.ones((2, 32)), "F32")])


def gguf_headers():
    """One tensor of each type."""
    for kind in [*PLAIN_TYPES, *BLOCK_FORMATS]:
        yield kind, ({"general.architecture": "llama", "a": 1, "b": [1, -1], "c": ["x", "y"], "d": [0.5], "e": True,
                      "general.alignment": 32}, [("t", np.linspace(-1, 1, 512).reshape(2, 256), kind)])


def main():
    folder = Path(sys.argv[1])

    def put(target, name, data):
        path = folder / target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    for name, data in tokenizer_seeds():
        put("fuzz_tokenizer", name, data)
    for name, data in template_seeds():
        put("fuzz_rerank_template", name, data)
    for name, config in configs():
        put("fuzz_model_config", name, json.dumps(config).encode())
    for name, data in safetensors_seeds():
        put("fuzz_safetensors", name, data)
    for name, file, contents in folder_seeds():
        data = contents if isinstance(contents, bytes) else json.dumps(contents).encode()
        put("fuzz_model_folder", name, bytes([file]) + data)
    for target, files in (("fuzz_gguf", gguf_headers()), ("fuzz_gguf_model", gguf_models())):
        (folder / target).mkdir(parents=True, exist_ok=True)
        for name, (metadata, tensors) in files:
            write_gguf(folder / target / name, metadata, tensors)


if __name__ == "__main__":
    main()
