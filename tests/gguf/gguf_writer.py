"""Writes GGUF files for tests: metadata of plain Python values, tensors of any type that can be read."""
import struct

import numpy as np

from block_formats import BLOCK_FORMATS, quantise

ALIGNMENT = 32
PLAIN_TYPES = {"F32": 0, "F16": 1, "BF16": 30}


def to_bf16(values):
    """The upper halves of f32 numbers, rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def tensor_bytes(values, kind):
    values = np.ascontiguousarray(values, np.float32)
    if kind == "F32":
        return values.tobytes()
    if kind == "F16":
        return values.astype(np.float16).tobytes()
    if kind == "BF16":
        return to_bf16(values).tobytes()
    return quantise(kind, values)


def type_number(kind):
    return PLAIN_TYPES[kind] if kind in PLAIN_TYPES else BLOCK_FORMATS[kind].number


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def array(values):
    if isinstance(values[0], str):
        return struct.pack("<IQ", 8, len(values)) + b"".join(map(string, values))
    number, kind = (6, np.float32) if isinstance(values[0], float) else (5, np.int32)
    return struct.pack("<IQ", number, len(values)) + np.array(values, kind).tobytes()


ENCODERS = {  # of metadata: type number, encoder
    int: (4, lambda value: struct.pack("<I", value)),
    float: (6, lambda value: struct.pack("<f", value)),
    bool: (7, lambda value: struct.pack("<B", value)),
    str: (8, string),
    list: (9, array),
}


def entry(key, value):
    number, encode = ENCODERS[type(value)]
    return string(key) + struct.pack("<I", number) + encode(value)


def padded(data):
    return data + b"\0" * (-len(data) % ALIGNMENT)


def write_gguf(path, metadata, tensors):
    """`tensors`: (name, f32 array, type) each."""
    infos, data = [], []
    offset = 0
    for name, values, kind in tensors:
        packed = padded(tensor_bytes(values, kind))
        dimensions = b"".join(struct.pack("<Q", n) for n in reversed(values.shape))
        infos.append(string(name) + struct.pack("<I", values.ndim) + dimensions
                     + struct.pack("<IQ", type_number(kind), offset))
        data.append(packed)
        offset += len(packed)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(entry(key, value) for key, value in metadata.items()) + b"".join(infos)
    path.write_bytes(padded(head) + b"".join(data))
