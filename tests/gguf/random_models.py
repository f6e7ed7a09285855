"""Random decoders of the families that GGUF files hold, and the tests' tokenizers as GGUF metadata.

    model = RandomModel("qwen2", seed=1)
    model.write(path, "Q4_K", vocabulary_of_tokenizer_json(tokenizer))

Rows are multiples of 256, as block formats need them.
"""
from dataclasses import dataclass

import numpy as np

from gguf_writer import write_gguf

LAYERS, HIDDEN, MLP, HEADS, KV_HEADS, HEAD_DIM = 3, 256, 512, 4, 2, 64
CONTEXT = 2048
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
SPACE_MARK = "\u2581"


def interleaved(matrix, heads):
    """Rows of queries or keys as `llama` files order them: a head's pairs (i, i + d/2) side by side."""
    halves = matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, *matrix.shape[1:])
    return halves.swapaxes(1, 2).reshape(matrix.shape)


@dataclass
class Vocabulary:
    size: int
    metadata: dict


def vocabulary_of_tokenizer_json(tokenizer, pre="qwen2", **metadata):
    """A byte-level BPE as GGUF stores it, from a parsed tokenizer.json."""
    added = {token["id"]: token for token in tokenizer["added_tokens"]}
    entries = {i: entry for entry, i in tokenizer["model"]["vocab"].items()}
    size = max([*added, *entries]) + 1
    tokens, kinds = [], []
    for i in range(size):
        if i in added:
            tokens.append(added[i]["content"])
            kinds.append(CONTROL if added[i]["special"] else USER_DEFINED)
        else:
            tokens.append(entries.get(i, f"[PAD{i}]"))
            kinds.append(NORMAL if i in entries else UNUSED)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    end = next(token["id"] for token in tokenizer["added_tokens"] if token["content"] == "<|endoftext|>")
    return Vocabulary(size, {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.bos_token_id": end,
        "tokenizer.ggml.padding_token_id": end,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": True,
    } | {f"tokenizer.ggml.{key}": value for key, value in metadata.items()})


def byte_level_text(entry):
    """The text of a byte-level entry; None if it is no whole UTF-8."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    bytes_of = {chr(byte): byte for byte in visible} | {chr(256 + i): byte for i, byte in enumerate(hidden)}
    try:
        return bytes(bytes_of[character] for character in entry).decode()
    except (UnicodeDecodeError, KeyError):
        return None


def sentencepiece_vocabulary(tokenizer, **metadata):
    """A SentencePiece BPE: bytes, and the pieces of a byte-level BPE's entries with scores that fall by rank."""
    pieces = [byte_level_text(entry) for entry in sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)]
    pieces = list(dict.fromkeys(piece.replace(" ", SPACE_MARK) for piece in pieces
                                if piece and piece.isprintable() and "\n" not in piece))
    pieces = sorted(pieces, key=lambda piece: len(piece) == 1)  # SentencePiece has its characters last
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(pieces)]
    scores = [0.0] * 259 + [float(-rank) for rank in range(len(pieces))]
    return Vocabulary(len(tokens), {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": False,
    } | {f"tokenizer.ggml.{key}": value for key, value in metadata.items()})


def gguf_names(weights):
    """GGUF's names of a Hugging Face checkpoint's tensors."""
    parts = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
             "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
             "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    names = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    for name in weights:
        pieces = name.removeprefix("model.").split(".")
        if pieces[0] == "layers":
            part, kind = ".".join(pieces[2:-1]), pieces[-1]
            yield name, f"blk.{pieces[1]}.{parts[part]}.{kind}"
        else:
            yield name, names[".".join(pieces)]


class RandomModel:
    """Weights by Hugging Face's names, f32."""

    def __init__(self, architecture, vocabulary_size, seed):
        self.architecture = architecture
        rng = np.random.default_rng(seed)

        def matrix(rows, columns):
            return rng.normal(0, columns ** -0.5, (rows, columns)).astype(np.float32)

        def vector(size, mean):
            return rng.normal(mean, 0.1, size).astype(np.float32)

        self.weights = {"embed_tokens.weight": matrix(vocabulary_size, HIDDEN) * 16, "norm.weight": vector(HIDDEN, 1)}
        for layer in range(LAYERS):
            tensors = {
                "input_layernorm.weight": vector(HIDDEN, 1),
                "self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, HIDDEN),
                "self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
                "self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
                "self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM),
                "post_attention_layernorm.weight": vector(HIDDEN, 1),
                "mlp.gate_proj.weight": matrix(MLP, HIDDEN),
                "mlp.up_proj.weight": matrix(MLP, HIDDEN),
                "mlp.down_proj.weight": matrix(HIDDEN, MLP),
            }
            if architecture == "qwen3":
                tensors |= {f"self_attn.{part}_norm.weight": vector(HEAD_DIM, 1) for part in "qk"}
            if architecture == "qwen2":
                tensors |= {"self_attn.q_proj.bias": vector(HEADS * HEAD_DIM, 0),
                            "self_attn.k_proj.bias": vector(KV_HEADS * HEAD_DIM, 0),
                            "self_attn.v_proj.bias": vector(KV_HEADS * HEAD_DIM, 0)}
            self.weights |= {f"layers.{layer}.{name}": tensor for name, tensor in tensors.items()}

    def metadata(self):
        arch = self.architecture
        return {
            "general.architecture": arch,
            "general.name": f"a random {arch}",
            f"{arch}.block_count": LAYERS,
            f"{arch}.context_length": CONTEXT,
            f"{arch}.embedding_length": HIDDEN,
            f"{arch}.feed_forward_length": MLP,
            f"{arch}.attention.head_count": HEADS,
            f"{arch}.attention.head_count_kv": KV_HEADS,
            f"{arch}.attention.key_length": HEAD_DIM,
            f"{arch}.attention.value_length": HEAD_DIM,
            f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
            f"{arch}.rope.freq_base": 1e5,
            f"{arch}.pooling_type": 3,  # the last token
        }

    def write(self, path, kind, vocabulary, extra_metadata=None, extra_tensors=()):
        """Matrices as `kind`, vectors as F32."""
        tensors = []
        for name, gguf_name in gguf_names(self.weights):
            values = self.weights[name]
            if self.architecture == "llama" and ".q_proj." in name:
                values = interleaved(values, HEADS)
            if self.architecture == "llama" and ".k_proj." in name:
                values = interleaved(values, KV_HEADS)
            tensors.append((gguf_name, values, kind if values.ndim == 2 else "F32"))
        metadata = self.metadata() | vocabulary.metadata | (extra_metadata or {})
        write_gguf(path, metadata, [*tensors, *extra_tensors])
