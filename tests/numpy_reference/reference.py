#!/usr/bin/env python3
"""Random Qwen3 models, and what they compute, by numpy in float64: reference.py OUT_DIR

A second implementation to hold the C++ one against, written from the description of the architecture
(Qwen3 Technical Report; Hugging Face's conventions for names and for RoPE), sequence by sequence, with
nothing shared and nothing fused. For each model OUT_DIR/NAME gets

  config.json, model.safetensors (or shards and their index)
  sequences.json   {"sequences": [[id, …], …], "logit_ids": [id, …]}
  hidden.f64       final hidden states of all tokens of all sequences, (N × hidden), little-endian
  logits.f64       (S × logit_ids), from each sequence's last token; empty for a model without a head
"""
import json
import struct
import sys
from pathlib import Path

try:
    import numpy as np
except ImportError:
    sys.exit(f"{sys.executable} has no numpy; install Debian's python3-numpy")

LOGIT_IDS = [0, 5, 41]

# name -> the traits of one model; "omit" leaves keys out of config.json
MODELS = {
    "head_dim_apart_bf16": dict(
        layers=3, hidden=64, intermediate=160, heads=4, kv_heads=2, head_dim=32, vocabulary=97,
        theta=1e6, dtype="BF16", prefix="model.", tied=True),
    "one_kv_head_f16": dict(
        layers=2, hidden=96, intermediate=128, heads=6, kv_heads=1, head_dim=20, vocabulary=64,
        theta=10000.0, dtype="F16", prefix="", tied=True),
    "untied_sharded_f32": dict(
        layers=4, hidden=48, intermediate=100, heads=4, kv_heads=4, head_dim=12, vocabulary=120,
        theta=500.0, dtype="F32", prefix="model.", tied=False, shards=3, omit=["head_dim"]),
    "one_layer_wide_groups_bf16": dict(
        layers=1, hidden=40, intermediate=64, heads=8, kv_heads=2, head_dim=64, vocabulary=50,
        theta=1e4, dtype="BF16", prefix="", tied=False, headless=True, newer_config=True),
}


# ---- number formats ------------------------------------------------------------------------------


def to_file(values, dtype):
    """The bytes of float64 `values` in `dtype`, and the values that those bytes stand for."""
    if dtype == "F32":
        stored = values.astype("<f4")
        return stored.tobytes(), stored.astype(np.float64)
    if dtype == "F16":
        stored = values.astype("<f2")
        return stored.tobytes(), stored.astype(np.float64)
    bits = values.astype(np.float32).view(np.uint32)
    upper = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")  # round to nearest even
    exact = (upper.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return upper.tobytes(), exact


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, bytes)."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


# ---- the model -----------------------------------------------------------------------------------


def make_weights(m, rng):
    """Name (without prefix) -> float64 array; scaled so that attention is far from uniform."""
    def matrix(outputs, inputs):
        return rng.standard_normal((outputs, inputs)) * 1.5 / np.sqrt(inputs)

    def gain(n):
        return 1 + 0.2 * rng.standard_normal(n)

    q, kv = m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
    weights = {"embed_tokens": rng.standard_normal((m["vocabulary"], m["hidden"]))}
    for i in range(m["layers"]):
        weights |= {
            f"layers.{i}.input_layernorm": gain(m["hidden"]),
            f"layers.{i}.self_attn.q_proj": matrix(q, m["hidden"]),
            f"layers.{i}.self_attn.k_proj": matrix(kv, m["hidden"]),
            f"layers.{i}.self_attn.v_proj": matrix(kv, m["hidden"]),
            f"layers.{i}.self_attn.q_norm": gain(m["head_dim"]),
            f"layers.{i}.self_attn.k_norm": gain(m["head_dim"]),
            f"layers.{i}.self_attn.o_proj": matrix(m["hidden"], q),
            f"layers.{i}.post_attention_layernorm": gain(m["hidden"]),
            f"layers.{i}.mlp.gate_proj": matrix(m["intermediate"], m["hidden"]),
            f"layers.{i}.mlp.up_proj": matrix(m["intermediate"], m["hidden"]),
            f"layers.{i}.mlp.down_proj": matrix(m["hidden"], m["intermediate"]),
        }
    weights["norm"] = gain(m["hidden"])
    if not m["tied"] and not m.get("headless"):
        weights["lm_head"] = matrix(m["vocabulary"], m["hidden"])
    return weights


def rms_norm(x, gain, eps=1e-6):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * gain


def rotate(x, theta):
    """RoPE on x (T, heads, d): components i and i + d/2 are one complex number."""
    d = x.shape[-1]
    angles = np.arange(len(x))[:, None, None] * theta ** (-2.0 * np.arange(d // 2) / d)
    turned = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def attention(x, w, layer, m):
    """Causal grouped-query self-attention of one sequence, x (T, hidden)."""
    name = f"layers.{layer}.self_attn."
    length, d = len(x), m["head_dim"]

    def heads(part):
        return (x @ w[name + part].T).reshape(length, -1, d)

    queries = rotate(rms_norm(heads("q_proj"), w[name + "q_norm"]), m["theta"])
    keys = rotate(rms_norm(heads("k_proj"), w[name + "k_norm"]), m["theta"])
    values = heads("v_proj")
    out = np.empty_like(queries)
    for head in range(m["heads"]):
        group = head * m["kv_heads"] // m["heads"]
        scores = queries[:, head] @ keys[:, group].T / np.sqrt(d)
        scores[np.triu_indices(length, 1)] = -np.inf
        probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        out[:, head] = probabilities @ values[:, group]
    return out.reshape(length, -1) @ w[name + "o_proj"].T


def mlp(x, w, layer):
    name = f"layers.{layer}.mlp."
    gate, up = x @ w[name + "gate_proj"].T, x @ w[name + "up_proj"].T
    return (gate / (1 + np.exp(-gate)) * up) @ w[name + "down_proj"].T


def forward(ids, w, m):
    """Final hidden states of one sequence, (T, hidden)."""
    x = w["embed_tokens"][ids]
    for i in range(m["layers"]):
        x = x + attention(rms_norm(x, w[f"layers.{i}.input_layernorm"]), w, i, m)
        x = x + mlp(rms_norm(x, w[f"layers.{i}.post_attention_layernorm"]), w, i)
    return rms_norm(x, w["norm"])


# ---- files ---------------------------------------------------------------------------------------


def write_config(folder, m):
    config = dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_size=m["hidden"],
        intermediate_size=m["intermediate"], num_hidden_layers=m["layers"],
        num_attention_heads=m["heads"], num_key_value_heads=m["kv_heads"], head_dim=m["head_dim"],
        vocab_size=m["vocabulary"], max_position_embeddings=512, rms_norm_eps=1e-6,
        tie_word_embeddings=m["tied"], hidden_act="silu", attention_bias=False)
    if m.get("newer_config"):
        config |= dict(dtype="bfloat16", layer_types=["full_attention"] * m["layers"],
                       rope_parameters=dict(rope_type="default", rope_theta=m["theta"]))
    else:
        config |= dict(rope_theta=m["theta"], rope_scaling=None, use_sliding_window=False,
                       sliding_window=None)
    for key in m.get("omit", []):
        del config[key]
    (folder / "config.json").write_text(json.dumps(config))


def write_weights(folder, m, weights):
    """Writes the weights; returns them as the files hold them."""
    tensors, exact = {}, {}
    for name, values in weights.items():
        data, exact[name] = to_file(values, m["dtype"])
        prefix = "" if name == "lm_head" else m["prefix"]
        tensors[f"{prefix}{name}.weight"] = (m["dtype"], list(values.shape), data)
    shards = m.get("shards", 1)
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors)
        return exact
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(tensors.items())[shard::shards])
        write_safetensors(folder / name, part)
        weight_map |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return exact


def make_sequences(vocabulary, rng):
    """Shared prefixes of several depths, a repeat, a whole prefix, one token, more than 256 tokens."""
    ids = rng.integers(0, vocabulary, 400).tolist()
    return [ids[:30], ids[:22] + ids[100:140], ids[:22] + ids[100:110] + ids[200:203], ids[:30],
            ids[:12], [ids[7]], ids[40:340], ids[300:317]]


def write_model(folder, m, rng):
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, m)
    weights = write_weights(folder, m, make_weights(m, rng))
    sequences = make_sequences(m["vocabulary"], rng)
    states = [forward(ids, weights, m) for ids in sequences]
    head = weights["embed_tokens"] if m["tied"] else weights.get("lm_head")
    last = np.array([s[-1] for s in states])
    logits = np.zeros(0) if head is None else last @ head[LOGIT_IDS].T
    (folder / "sequences.json").write_text(
        json.dumps({"sequences": sequences, "logit_ids": LOGIT_IDS}))
    (folder / "hidden.f64").write_bytes(np.concatenate(states).astype("<f8").tobytes())
    (folder / "logits.f64").write_bytes(logits.astype("<f8").tobytes())


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: reference.py OUT_DIR")
    for seed, (name, traits) in enumerate(MODELS.items()):
        write_model(Path(sys.argv[1]) / name, traits, np.random.default_rng(seed))
    print(f"{len(MODELS)} models in {sys.argv[1]}")


if __name__ == "__main__":
    main()
