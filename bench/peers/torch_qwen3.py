#!/usr/bin/env python3
"""A plain forward pass of Qwen3 in PyTorch, as a peer that `run.py` times.

  torch_qwen3.py MODEL_FOLDER DTYPE(f32|bf16) THREADS BATCH

Reads one JSON object a line, {"ids": [[…], …]} with inputs of one length, and answers each with
{"seconds", "embeddings"}: the normalised final hidden state of every last token, and the time that computing them took.
The first line it writes says that the model is loaded: {"about": …}. Needs torch 1.13 or later and numpy.
"""
import json
import math
import struct
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import linear, normalize, silu


def read_safetensors(path, dtype):
    """Name -> tensor of `dtype`, for a file whose tensors are all bf16."""
    data = np.memmap(path, np.uint8, "r")
    (header_bytes,) = struct.unpack("<Q", data[:8].tobytes())
    header = json.loads(data[8:8 + header_bytes].tobytes())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            sys.exit(f"{path}: {name} is {entry['dtype']}, not BF16")
        begin, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
        bits = torch.from_numpy(data[begin:end].view(np.int16).copy())
        tensors[name] = bits.view(torch.bfloat16).reshape(entry["shape"]).to(dtype)
    return tensors


def rms_norm(x, gain, epsilon):
    """Computed in f32, as the model was trained."""
    wide = x.float()
    return gain * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype)


class Qwen3:
    """The decoder without its head: token ids in, the final hidden state of the last token out."""

    def __init__(self, folder, dtype):
        config = json.loads((folder / "config.json").read_text())
        self.dtype = dtype
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.head_dim = config["head_dim"]
        self.epsilon = config["rms_norm_eps"]
        self.theta = config["rope_theta"]
        self.weights = read_safetensors(folder / "model.safetensors", dtype)

    def rotation(self, length):
        """Cosines and sines of the rotary embedding, [length, head_dim]."""
        frequencies = self.theta ** (-torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim)
        angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies).repeat(1, 2)
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def rotate(self, x, rotation):
        cosines, sines = rotation
        left, right = x.chunk(2, dim=-1)
        return x * cosines + torch.cat((-right, left), dim=-1) * sines

    def heads_of(self, x, prefix, part, heads):
        """One projection of x, split into heads: [batch, heads, length, head_dim]."""
        projected = linear(x, self.weights[f"{prefix}self_attn.{part}_proj.weight"])
        return projected.view(*x.shape[:2], heads, self.head_dim).transpose(1, 2)

    def normed_heads_of(self, x, prefix, part, heads, rotation):
        gain = self.weights[f"{prefix}self_attn.{part}_norm.weight"]
        return self.rotate(rms_norm(self.heads_of(x, prefix, part, heads), gain, self.epsilon), rotation)

    def attention(self, x, prefix, rotation, mask):
        batch, length, _ = x.shape
        group = self.heads // self.kv_heads
        q = self.normed_heads_of(x, prefix, "q", self.heads, rotation)
        k = self.normed_heads_of(x, prefix, "k", self.kv_heads, rotation)
        v = self.heads_of(x, prefix, "v", self.kv_heads)
        k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
        scores = (q @ k.transpose(2, 3)) / math.sqrt(self.head_dim) + mask
        mixed = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(batch, length, -1)
        return linear(mixed, self.weights[prefix + "self_attn.o_proj.weight"])

    def mlp(self, x, prefix):
        gate, up, down = (self.weights[f"{prefix}mlp.{part}_proj.weight"] for part in ("gate", "up", "down"))
        return linear(silu(linear(x, gate)) * linear(x, up), down)

    def forward(self, ids):
        """ids: [batch, length]. Returns [batch, hidden] in f32."""
        length = ids.shape[1]
        x = self.weights["model.embed_tokens.weight"][ids]
        rotation = self.rotation(length)
        mask = torch.full((length, length), -math.inf, dtype=self.dtype).triu(1)
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            normed = rms_norm(x, self.weights[prefix + "input_layernorm.weight"], self.epsilon)
            x = x + self.attention(normed, prefix, rotation, mask)
            normed = rms_norm(x, self.weights[prefix + "post_attention_layernorm.weight"], self.epsilon)
            x = x + self.mlp(normed, prefix)
        return rms_norm(x[:, -1], self.weights["model.norm.weight"], self.epsilon).float()


def serve(model, batch):
    """Answers the requests on stdin until it ends."""
    for line in sys.stdin:
        ids = torch.tensor(json.loads(line)["ids"])
        start = time.perf_counter()
        hidden = torch.cat([model.forward(part) for part in ids.split(batch)])
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "embeddings": normalize(hidden, dim=-1).tolist()}), flush=True)


def main():
    folder, dtype, threads, batch = sys.argv[1:]
    torch.set_num_threads(int(threads))
    model = Qwen3(Path(folder), {"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
    print(json.dumps({"about": f"PyTorch {torch.__version__}, batches of {batch}"}), flush=True)
    with torch.inference_mode():
        serve(model, int(batch))


if __name__ == "__main__":
    main()
