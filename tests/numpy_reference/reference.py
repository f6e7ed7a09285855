#!/usr/bin/env python3
"""Random models of every family, and what they compute, by numpy in float64: reference.py OUT_DIR

A second implementation to hold the C++ one against, written from the description of the architecture
(the families' reports; Hugging Face's conventions for names and for RoPE), sequence by sequence, with
nothing shared and nothing fused. For each model OUT_DIR/NAME gets

  config.json, model.safetensors (or shards and their index)
  sequences.json   {"sequences": [[id, …], …], "logit_ids": [id, …]}
  hidden.f64       final hidden states of all tokens of all sequences, (N × hidden), little-endian
  logits.f64       (S × logit_ids), from each sequence's last token; empty for a model without a head
"""
import json
import math
import struct
import sys
from pathlib import Path

try:
    import numpy as np
except ImportError:
    sys.exit(f"{sys.executable} has no numpy; install Debian's python3-numpy")

LOGIT_IDS = [0, 5, 41]
POSITIONS = 512

# Products that may have a bias.
QKV = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
OUTPUT = ["self_attn.o_proj"]
MLP = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
CLASSES = {"qwen3": "Qwen3", "qwen2": "Qwen2", "llama": "Llama", "mistral": "Mistral"}

# name -> the traits of one model; "omit" leaves keys out of config.json, "config" adds some. Sequences have
# up to 300 tokens: positions far beyond the 32 to 64 that stretched models were trained for.
MODELS = {
    "head_dim_apart_bf16": dict(
        layers=3, hidden=64, intermediate=160, heads=4, kv_heads=2, head_dim=32, vocabulary=97,
        theta=1e6, dtype="BF16", prefix="model.", tied=True),
    "one_kv_head_f16": dict(
        layers=2, hidden=96, intermediate=128, heads=6, kv_heads=1, head_dim=20, vocabulary=64,
        theta=10000.0, dtype="F16", prefix="", tied=True),
    "untied_sharded_f32": dict(
        layers=4, hidden=48, intermediate=100, heads=4, kv_heads=4, head_dim=12, vocabulary=120,
        theta=500.0, dtype="F32", prefix="model.", tied=False, shards=3),
    "one_layer_wide_groups_bf16": dict(
        layers=1, hidden=40, intermediate=64, heads=8, kv_heads=2, head_dim=64, vocabulary=50,
        theta=1e4, dtype="BF16", prefix="", tied=False, headless=True, newer_config=True),
    "qwen2_bf16": dict(
        family="qwen2", layers=3, hidden=56, intermediate=144, heads=7, kv_heads=1, head_dim=8, vocabulary=90,
        theta=1e6, dtype="BF16", prefix="model.", tied=True, biases=QKV, omit=["head_dim", "attention_bias"],
        config=dict(sliding_window=131072, max_window_layers=2)),
    "qwen2_yarn_sharded_f16": dict(
        family="qwen2", layers=2, hidden=64, intermediate=96, heads=4, kv_heads=2, head_dim=16, vocabulary=80,
        theta=1e4, dtype="F16", prefix="", tied=False, headless=True, biases=QKV, shards=2,
        omit=["head_dim", "attention_bias"],
        scaling=dict(type="yarn", factor=8.0, original_max_position_embeddings=64)),
    "qwen3_attention_bias_window_f32": dict(
        layers=3, hidden=48, intermediate=80, heads=4, kv_heads=2, head_dim=24, vocabulary=70,
        theta=1e4, dtype="F32", prefix="model.", tied=True, biases=QKV + OUTPUT, layer_types_window=300,
        config=dict(attention_bias=True)),
    "llama_all_biases_f32": dict(
        family="llama", layers=3, hidden=60, intermediate=110, heads=6, kv_heads=3, head_dim=10, vocabulary=75,
        theta=1e4, dtype="F32", prefix="model.", tied=False, biases=QKV + OUTPUT + MLP, eps=1e-5, inv_freq=True,
        omit=["head_dim"], config=dict(attention_bias=True, mlp_bias=True, pretraining_tp=2)),
    "llama3_bf16": dict(
        family="llama", layers=2, hidden=64, intermediate=128, heads=4, kv_heads=1, head_dim=32, vocabulary=100,
        theta=5e5, dtype="BF16", prefix="model.", tied=True, eps=1e-5,
        scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                     original_max_position_embeddings=64)),
    "llama_linear_gelu_f32": dict(
        family="llama", layers=2, hidden=64, intermediate=90, heads=4, kv_heads=4, head_dim=16, vocabulary=64,
        theta=1e4, dtype="F32", prefix="", tied=False, activation="gelu", biases=MLP,
        omit=["num_key_value_heads"], config=dict(mlp_bias=True), scaling=dict(type="linear", factor=4.0)),
    "llama_yarn_tempered_f16": dict(
        family="llama", layers=2, hidden=48, intermediate=64, heads=3, kv_heads=3, head_dim=16, vocabulary=64,
        theta=1e4, dtype="F16", prefix="model.", tied=True, activation="gelu_pytorch_tanh", newer_config=True,
        scaling=dict(rope_type="yarn", factor=16.0, original_max_position_embeddings=32, mscale=0.707,
                     mscale_all_dim=1.0, beta_fast=16, beta_slow=2, truncate=False)),
    "llama_yarn_attention_factor_f32": dict(
        family="llama", layers=2, hidden=64, intermediate=64, heads=2, kv_heads=1, head_dim=32, vocabulary=64,
        theta=1e6, dtype="F32", prefix="model.", tied=True,
        scaling=dict(rope_type="yarn", original_max_position_embeddings=64, attention_factor=1.3)),
    "mistral_window_bf16": dict(
        family="mistral", layers=3, hidden=64, intermediate=96, heads=8, kv_heads=2, head_dim=8, vocabulary=88,
        theta=1e4, dtype="BF16", prefix="", tied=False, headless=True, eps=1e-5, omit=["head_dim"],
        config=dict(sliding_window=300)),
    "mistral_wide_heads_gelu_new_f16": dict(
        family="mistral", layers=2, hidden=40, intermediate=72, heads=4, kv_heads=2, head_dim=24, vocabulary=66,
        theta=1e6, dtype="F16", prefix="model.", tied=False, activation="gelu_new"),
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


def family(m):
    return m.get("family", "qwen3")


def make_weights(m, rng):
    """Name (without prefix) -> float64 array; scaled so that attention is far from uniform, but not so
    steep that bf16's rounding of a score decides whom a token attends to."""
    def matrix(outputs, inputs):
        return rng.standard_normal((outputs, inputs)) * 1.5 / np.sqrt(inputs)

    def gain(n):
        return 1 + 0.2 * rng.standard_normal(n)

    q, kv = m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
    weights = {"embed_tokens.weight": rng.standard_normal((m["vocabulary"], m["hidden"]))}
    for i in range(m["layers"]):
        layer = f"layers.{i}."
        weights[layer + "input_layernorm.weight"] = gain(m["hidden"])
        for name, outputs, inputs in [("self_attn.q_proj", q, m["hidden"]), ("self_attn.k_proj", kv, m["hidden"]),
                                      ("self_attn.v_proj", kv, m["hidden"]), ("self_attn.o_proj", m["hidden"], q),
                                      ("mlp.gate_proj", m["intermediate"], m["hidden"]),
                                      ("mlp.up_proj", m["intermediate"], m["hidden"]),
                                      ("mlp.down_proj", m["hidden"], m["intermediate"])]:
            scored = name in QKV[:2] and family(m) != "qwen3"  # without a norm that would undo the scale
            weights[f"{layer}{name}.weight"] = matrix(outputs, inputs) * (0.6 if scored else 1)
            if name in m.get("biases", []):
                weights[f"{layer}{name}.bias"] = 0.5 * rng.standard_normal(outputs)
        if family(m) == "qwen3":
            weights[layer + "self_attn.q_norm.weight"] = gain(m["head_dim"])
            weights[layer + "self_attn.k_norm.weight"] = gain(m["head_dim"])
        weights[layer + "post_attention_layernorm.weight"] = gain(m["hidden"])
        if m.get("inv_freq"):  # a buffer in old files, here with values that would do harm
            weights[layer + "self_attn.rotary_emb.inv_freq"] = rng.standard_normal(m["head_dim"] // 2)
    weights["norm.weight"] = gain(m["hidden"])
    if not m["tied"] and not m.get("headless"):
        weights["lm_head.weight"] = matrix(m["vocabulary"], m["hidden"])
    return weights


def rms_norm(x, gain, m):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + m.get("eps", 1e-6)) * gain


def yarn_scale(factor, weight=1.0):
    return 1.0 if factor <= 1 else 0.1 * weight * np.log(factor) + 1.0


def yarn(plain, m, scaling):
    """Peng et al. 2023, "YaRN": frequencies and the factor of cosines and sines."""
    trained, d = scaling["original_max_position_embeddings"], m["head_dim"]
    factor = scaling.get("factor", POSITIONS / trained)

    def index(turns):
        return d * np.log(trained / (2 * np.pi * turns)) / (2 * np.log(m["theta"]))

    low, high = index(scaling.get("beta_fast", 32)), index(scaling.get("beta_slow", 1))
    if scaling.get("truncate", True):
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    ramp = np.clip((np.arange(d // 2) - low) / (high - low if high != low else 0.001), 0, 1)
    tempered = scaling.get("attention_factor")
    if tempered is None and "mscale" in scaling:
        tempered = yarn_scale(factor, scaling["mscale"]) / yarn_scale(factor, scaling["mscale_all_dim"])
    if tempered is None:
        tempered = yarn_scale(factor)
    return plain * (1 - ramp) + plain / factor * ramp, tempered


def llama3(plain, scaling):
    """Llama 3.1's reference code: by wavelength, three bands."""
    trained, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    scaled = []
    for frequency in plain:
        wavelength = 2 * np.pi / frequency
        if wavelength < trained / high:
            scaled.append(frequency)
        elif wavelength > trained / low:
            scaled.append(frequency / factor)
        else:
            smooth = (trained / wavelength - low) / (high - low)
            scaled.append((1 - smooth) * frequency / factor + smooth * frequency)
    return np.array(scaled)


def frequencies(m):
    """Radians a position of each pair, and the factor of cosines and sines."""
    plain = m["theta"] ** (-2.0 * np.arange(m["head_dim"] // 2) / m["head_dim"])
    scaling = m.get("scaling")
    if scaling is None:
        return plain, 1.0
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "yarn":
        return yarn(plain, m, scaling)
    return (plain / scaling["factor"] if kind == "linear" else llama3(plain, scaling)), 1.0


def rotate(x, m):
    """RoPE on x (T, heads, d): components i and i + d/2 are one complex number."""
    d = x.shape[-1]
    per_position, factor = frequencies(m)
    angles = np.arange(len(x))[:, None, None] * per_position
    turned = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * factor * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def linear(x, w, name):
    y = x @ w[name + ".weight"].T
    return y + w[name + ".bias"] if name + ".bias" in w else y


def attention(x, w, layer, m):
    """Causal grouped-query self-attention of one sequence, x (T, hidden). Windows are those of the config;
    the sequences fit them."""
    name = f"layers.{layer}.self_attn."
    length, d = len(x), m["head_dim"]

    def heads(part):
        return linear(x, w, name + part).reshape(length, -1, d)

    queries, keys, values = heads("q_proj"), heads("k_proj"), heads("v_proj")
    if family(m) == "qwen3":
        queries = rms_norm(queries, w[name + "q_norm.weight"], m)
        keys = rms_norm(keys, w[name + "k_norm.weight"], m)
    queries, keys = rotate(queries, m), rotate(keys, m)
    window = m.get("config", {}).get("sliding_window") or m.get("layer_types_window") or length
    distance = np.arange(length)[:, None] - np.arange(length)
    unseen = (distance < 0) | (distance >= window)
    out = np.empty_like(queries)
    for head in range(m["heads"]):
        group = head * m["kv_heads"] // m["heads"]
        scores = queries[:, head] @ keys[:, group].T / np.sqrt(d)
        scores[unseen] = -np.inf
        probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        out[:, head] = probabilities @ values[:, group]
    return linear(out.reshape(length, -1), w, name + "o_proj")


def activate(x, m):
    name = m.get("activation", "silu")
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "gelu":
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def mlp(x, w, layer, m):
    name = f"layers.{layer}.mlp."
    return linear(activate(linear(x, w, name + "gate_proj"), m) * linear(x, w, name + "up_proj"), w,
                  name + "down_proj")


def forward(ids, w, m):
    """Final hidden states of one sequence, (T, hidden)."""
    x = w["embed_tokens.weight"][ids]
    for i in range(m["layers"]):
        x = x + attention(rms_norm(x, w[f"layers.{i}.input_layernorm.weight"], m), w, i, m)
        x = x + mlp(rms_norm(x, w[f"layers.{i}.post_attention_layernorm.weight"], m), w, i, m)
    return rms_norm(x, w["norm.weight"], m)


# ---- files ---------------------------------------------------------------------------------------


def write_config(folder, m):
    config = dict(
        architectures=[CLASSES[family(m)] + ("Model" if m.get("headless") else "ForCausalLM")],
        model_type=family(m), hidden_size=m["hidden"],
        intermediate_size=m["intermediate"], num_hidden_layers=m["layers"],
        num_attention_heads=m["heads"], num_key_value_heads=m["kv_heads"], head_dim=m["head_dim"],
        vocab_size=m["vocabulary"], max_position_embeddings=POSITIONS, rms_norm_eps=m.get("eps", 1e-6),
        tie_word_embeddings=m["tied"], hidden_act=m.get("activation", "silu"), attention_bias=False)
    if m.get("newer_config"):
        config |= dict(dtype="bfloat16", layer_types=["full_attention"] * m["layers"],
                       rope_parameters=dict(m.get("scaling", dict(rope_type="default")), rope_theta=m["theta"]))
    else:
        config |= dict(rope_theta=m["theta"], rope_scaling=m.get("scaling"), use_sliding_window=False,
                       sliding_window=None)
    if "layer_types_window" in m:
        config |= dict(use_sliding_window=True, sliding_window=m["layer_types_window"],
                       layer_types=["full_attention"] + ["sliding_attention"] * (m["layers"] - 1))
    config |= m.get("config", {})
    for key in m.get("omit", []):
        del config[key]
    (folder / "config.json").write_text(json.dumps(config))


def write_weights(folder, m, weights):
    """Writes the weights; returns them as the files hold them."""
    tensors, exact = {}, {}
    for name, values in weights.items():
        data, exact[name] = to_file(values, m["dtype"])
        prefix = "" if name.startswith("lm_head") else m["prefix"]
        tensors[prefix + name] = (m["dtype"], list(values.shape), data)
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
    write_results(folder, m, write_weights(folder, m, make_weights(m, rng)), rng)


def write_results(folder, m, weights, rng):
    """What the model computes with these weights, as numbers beside it."""
    sequences = make_sequences(m["vocabulary"], rng)
    states = [forward(ids, weights, m) for ids in sequences]
    head = weights["embed_tokens.weight"] if m["tied"] else weights.get("lm_head.weight")
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
