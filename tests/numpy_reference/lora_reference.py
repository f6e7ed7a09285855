#!/usr/bin/env python3
"""Random models with random LoRA adapters, merged by numpy in float64: lora_reference.py OUT_DIR

As reference.py, whose models these are; besides, OUT_DIR/NAME gets the adapters' folders as PEFT saves them, and
sequences.json names them: {…, "lora_adapters": ["adapters/first", …]}.
"""
import json
import sys
from pathlib import Path

import numpy as np

import reference

# name -> (model, its adapters). "modules" are those that an adapter has, in layers or all of them.
CASES = {
    "lora_rank_4_f32": ("untied_sharded_f32", [
        dict(rank=4, alpha=8, modules=["self_attn.q_proj", "self_attn.v_proj"], dtype="F32")]),
    "lora_all_modules_rslora_bf16": ("head_dim_apart_bf16", [
        dict(rank=8, alpha=1, rslora=True, modules=reference.QKV + reference.OUTPUT + reference.MLP, dtype="BF16")]),
    "lora_two_adapters_f16": ("one_kv_head_f16", [
        dict(rank=2, alpha=3, modules=["mlp.down_proj", "self_attn.k_proj"], dtype="F16"),
        dict(rank=5, alpha=5, modules=["mlp.down_proj", "mlp.gate_proj"], dtype="F32", prefix="")]),
    "lora_patterns_f32": ("llama_all_biases_f32", [
        dict(rank=4, alpha=4, modules=["self_attn.o_proj", "mlp.up_proj"], layers=[0, 2], dtype="F32",
             ranks={"up_proj": 7, "layers.0.mlp.up_proj": 3}, alphas={"layers.2.self_attn.o_proj": 12.5})]),
}


def by_pattern(patterns, module, fallback):
    """The most specific pattern that names the module or its end."""
    fitting = [name for name in patterns if module == name or module.endswith("." + name)]
    return patterns[max(fitting, key=len)] if fitting else fallback


def write_adapter(folder, adapter, weights, layers, rng):
    """Writes one adapter; returns name -> what it adds, from the numbers as the file holds them."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors, updates = {}, {}
    prefix = "base_model.model." + adapter.get("prefix", "model.")
    for layer in adapter.get("layers", range(layers)):
        for part in adapter["modules"]:
            module = f"layers.{layer}.{part}"
            outputs, inputs = weights[module + ".weight"].shape
            rank = by_pattern(adapter.get("ranks", {}), module, adapter["rank"])
            alpha = by_pattern(adapter.get("alphas", {}), module, adapter["alpha"])
            pair = {}
            for letter, shape in (("A", (rank, inputs)), ("B", (outputs, rank))):
                values = rng.standard_normal(shape) / np.sqrt(shape[1])
                data, pair[letter] = reference.to_file(values, adapter["dtype"])
                tensors[f"{prefix}{module}.lora_{letter}.weight"] = (adapter["dtype"], list(shape), data)
            scale = alpha / (np.sqrt(rank) if adapter.get("rslora") else rank)
            updates[module + ".weight"] = scale * pair["B"] @ pair["A"]
    reference.write_safetensors(folder / "adapter_model.safetensors", tensors)
    config = dict(peft_type="LORA", task_type="FEATURE_EXTRACTION", base_model_name_or_path="base", bias="none",
                  r=adapter["rank"], lora_alpha=adapter["alpha"], use_rslora=adapter.get("rslora", False),
                  target_modules=adapter["modules"], lora_dropout=0.1, fan_in_fan_out=False, inference_mode=True,
                  init_lora_weights=True, modules_to_save=None, use_dora=False, layers_to_transform=None,
                  rank_pattern=adapter.get("ranks", {}), alpha_pattern=adapter.get("alphas", {}),
                  megatron_config=None, megatron_core="megatron.core", loftq_config={}, revision=None)
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return updates


def write_case(folder, model, adapters, rng):
    folder.mkdir(parents=True, exist_ok=True)
    m = reference.MODELS[model]
    reference.write_config(folder, m)
    merged = dict(reference.write_weights(folder, m, reference.make_weights(m, rng)))
    names = []
    for index, adapter in enumerate(adapters):
        names.append(f"adapters/task-{index}")
        for name, update in write_adapter(folder / names[-1], adapter, merged, m["layers"], rng).items():
            merged[name] = merged[name] + update
    reference.write_results(folder, m, merged, rng)
    described = json.loads((folder / "sequences.json").read_text())
    (folder / "sequences.json").write_text(json.dumps(described | {"lora_adapters": names}))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: lora_reference.py OUT_DIR")
    for seed, (name, (model, adapters)) in enumerate(CASES.items()):
        write_case(Path(sys.argv[1]) / name, model, adapters, np.random.default_rng(1000 + seed))
    print(f"{len(CASES)} models with adapters in {sys.argv[1]}")


if __name__ == "__main__":
    main()
