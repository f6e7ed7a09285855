"""GGML's block formats in numpy, written from their description: weights to blocks and back.

A format packs runs of 32 or 256 weights of a row. All functions take and give arrays of one block a row.
"""
import numpy as np

F32, F16 = np.float32, np.float16


def half(blocks, at):
    """The f16 at byte `at` of each block, as an f32 column."""
    return blocks[:, at:at + 2].copy().view(F16).astype(F32)


def half_bytes(values):
    return values.astype(F16).reshape(-1, 1).view(np.uint8)


def rounded(values):
    """What an f16 keeps of f32 values."""
    return values.astype(F16).astype(F32)


def divided(values, by):
    return np.divide(values, by, out=np.zeros(np.broadcast(values, by).shape, F32), where=by != 0)


def steps(values, scale, least, most):
    return np.clip(np.rint(divided(values, scale)), least, most).astype(np.int32)


# How bits lie: of 32 weights nibble i and i + 16 share a byte. Of 256, the bits of weight i lie in byte i % 32 of a
# run of bytes, at a place that depends on i / 32.

def pack_nibbles(q):
    return (q[:, :16] | q[:, 16:] << 4).astype(np.uint8)


def unpack_nibbles(data):
    return np.concatenate([data & 15, data >> 4], axis=1).astype(np.int32)


def pack_bits(q):
    """One bit a weight, the lowest first."""
    return np.packbits(q.astype(np.uint8), axis=1, bitorder="little")


def unpack_bits(data):
    return np.unpackbits(data, axis=1, bitorder="little").astype(np.int32)


def pack_runs(q, runs_per_byte, bits):
    """256 weights: of each stretch of 32 · runs_per_byte the runs of 32 share 32 bytes."""
    parts = q.reshape(len(q), -1, runs_per_byte, 32)
    out = np.zeros((len(q), parts.shape[1], 32), np.int64)
    for run in range(runs_per_byte):
        out |= parts[:, :, run].astype(np.int64) << (bits * run)
    return out.reshape(len(q), -1).astype(np.uint8)


def unpack_runs(data, runs_per_byte, bits):
    parts = data.reshape(len(data), -1, 32)
    runs = [parts >> (bits * run) & (1 << bits) - 1 for run in range(runs_per_byte)]
    return np.stack(runs, axis=2).reshape(len(data), -1).astype(np.int32)


def pack_six_bits(scales, leasts):
    """8 scales and 8 leasts of 6 bits in 12 bytes."""
    scales, leasts = scales.astype(np.int32), leasts.astype(np.int32)
    first = scales[:, :4] | scales[:, 4:] >> 4 << 6
    second = leasts[:, :4] | leasts[:, 4:] >> 4 << 6
    third = scales[:, 4:] & 15 | (leasts[:, 4:] & 15) << 4
    return np.concatenate([first, second, third], axis=1).astype(np.uint8)


def unpack_six_bits(data):
    first, second, third = data[:, :4].astype(np.int32), data[:, 4:8].astype(np.int32), data[:, 8:].astype(np.int32)
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    leasts = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    return scales.astype(F32), leasts.astype(F32)


def spread(groups, size):
    """A value for each weight from one for each group of `size`."""
    return np.repeat(groups, size, axis=1)


class Q4_0:
    number, weights, size, halves = 2, 32, 18, (0,)

    @staticmethod
    def quantise(x):
        scale = rounded(np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1) / -8)
        return np.concatenate([half_bytes(scale), pack_nibbles(steps(x, scale, -8, 7) + 8)], axis=1)

    @staticmethod
    def dequantise(b):
        return (unpack_nibbles(b[:, 2:]) - 8).astype(F32) * half(b, 0)


class Q4_1:
    number, weights, size, halves = 3, 32, 20, (0, 2)

    @staticmethod
    def quantise(x):
        least = rounded(x.min(1, keepdims=True))
        scale = rounded((x.max(1, keepdims=True) - least) / 15)
        q = steps(x - least, scale, 0, 15)
        return np.concatenate([half_bytes(scale), half_bytes(least), pack_nibbles(q)], axis=1)

    @staticmethod
    def dequantise(b):
        return unpack_nibbles(b[:, 4:]).astype(F32) * half(b, 0) + half(b, 2)


class Q5_0:
    number, weights, size, halves = 6, 32, 22, (0,)

    @staticmethod
    def quantise(x):
        scale = rounded(np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1) / -16)
        q = steps(x, scale, -16, 15) + 16
        return np.concatenate([half_bytes(scale), pack_bits(q >> 4), pack_nibbles(q & 15)], axis=1)

    @staticmethod
    def dequantise(b):
        return (unpack_nibbles(b[:, 6:]) + 16 * unpack_bits(b[:, 2:6]) - 16).astype(F32) * half(b, 0)


class Q5_1:
    number, weights, size, halves = 7, 32, 24, (0, 2)

    @staticmethod
    def quantise(x):
        least = rounded(x.min(1, keepdims=True))
        scale = rounded((x.max(1, keepdims=True) - least) / 31)
        q = steps(x - least, scale, 0, 31)
        return np.concatenate([half_bytes(scale), half_bytes(least), pack_bits(q >> 4), pack_nibbles(q & 15)], axis=1)

    @staticmethod
    def dequantise(b):
        return (unpack_nibbles(b[:, 8:]) + 16 * unpack_bits(b[:, 4:8])).astype(F32) * half(b, 0) + half(b, 2)


class Q8_0:
    number, weights, size, halves = 8, 32, 34, (0,)

    @staticmethod
    def quantise(x):
        scale = rounded(np.abs(x).max(1, keepdims=True) / 127)
        return np.concatenate([half_bytes(scale), steps(x, scale, -127, 127).astype(np.int8).view(np.uint8)], axis=1)

    @staticmethod
    def dequantise(b):
        return b[:, 2:].copy().view(np.int8).astype(F32) * half(b, 0)


def grouped(x, size, levels, most):
    """Scales and leasts of groups, rounded to whole multiples (at most `most`) of an f16 each, and the steps."""
    groups = x.reshape(len(x), -1, size)
    leasts = np.maximum(-groups.min(2), 0)
    scales = (groups.max(2) + leasts) / levels
    scale, least = (rounded(values.max(1, keepdims=True) / most) for values in (scales, leasts))
    small_scales, small_leasts = steps(scales, scale, 0, most), steps(leasts, least, 0, most)
    step = spread(scale * small_scales.astype(F32), size)
    q = steps(x + spread(least * small_leasts.astype(F32), size), step, 0, levels)
    return scale, least, small_scales, small_leasts, q


class Q2_K:
    number, weights, size, halves = 10, 256, 84, (80, 82)

    @staticmethod
    def quantise(x):
        scale, least, scales, leasts, q = grouped(x, 16, 3, 15)
        small = (scales | leasts << 4).astype(np.uint8)
        return np.concatenate([small, pack_runs(q, 4, 2), half_bytes(scale), half_bytes(least)], axis=1)

    @staticmethod
    def dequantise(b):
        step = half(b, 80) * (b[:, :16] & 15).astype(F32)
        least = half(b, 82) * (b[:, :16] >> 4).astype(F32)
        return spread(step, 16) * unpack_runs(b[:, 16:80], 4, 2).astype(F32) - spread(least, 16)


class Q3_K:
    number, weights, size, halves = 11, 256, 110, (108,)

    @staticmethod
    def quantise(x):
        scales = np.abs(x.reshape(len(x), 16, 16)).max(2) / 4
        scale = rounded(scales.max(1, keepdims=True) / 31)
        small = steps(scales, scale, -32, 31)
        q = steps(x, spread(scale * small.astype(F32), 16), -4, 3) + 4
        six = small + 32
        low = six[:, :8] & 15 | (six[:, 8:] & 15) << 4
        high = sum((six[:, 4 * k:4 * k + 4] >> 4) << (2 * k) for k in range(4))
        parts = [pack_runs(q >> 2, 8, 1), pack_runs(q & 3, 4, 2), low.astype(np.uint8), high.astype(np.uint8)]
        return np.concatenate([*parts, half_bytes(scale)], axis=1)

    @staticmethod
    def dequantise(b):
        low = np.concatenate([b[:, 96:104] & 15, b[:, 96:104] >> 4], axis=1).astype(np.int32)
        high = np.concatenate([b[:, 104:108] >> (2 * k) & 3 for k in range(4)], axis=1).astype(np.int32)
        step = half(b, 108) * (low + 16 * high - 32).astype(F32)
        q = unpack_runs(b[:, 32:96], 4, 2) + 4 * unpack_runs(b[:, :32], 8, 1) - 4
        return spread(step, 16) * q.astype(F32)


class Q4_K:
    number, weights, size, halves = 12, 256, 144, (0, 2)

    @staticmethod
    def quantise(x):
        scale, least, scales, leasts, q = grouped(x, 32, 15, 63)
        head = [half_bytes(scale), half_bytes(least), pack_six_bits(scales, leasts)]
        return np.concatenate([*head, pack_runs(q, 2, 4)], axis=1)

    @staticmethod
    def dequantise(b):
        scales, leasts = unpack_six_bits(b[:, 4:16])
        step, least = half(b, 0) * scales, half(b, 2) * leasts
        return spread(step, 32) * unpack_runs(b[:, 16:], 2, 4).astype(F32) - spread(least, 32)


class Q5_K:
    number, weights, size, halves = 13, 256, 176, (0, 2)

    @staticmethod
    def quantise(x):
        scale, least, scales, leasts, q = grouped(x, 32, 31, 63)
        head = [half_bytes(scale), half_bytes(least), pack_six_bits(scales, leasts)]
        return np.concatenate([*head, pack_runs(q >> 4, 8, 1), pack_runs(q & 15, 2, 4)], axis=1)

    @staticmethod
    def dequantise(b):
        scales, leasts = unpack_six_bits(b[:, 4:16])
        step, least = half(b, 0) * scales, half(b, 2) * leasts
        q = unpack_runs(b[:, 48:], 2, 4) + 16 * unpack_runs(b[:, 16:48], 8, 1)
        return spread(step, 32) * q.astype(F32) - spread(least, 32)


class Q6_K:
    number, weights, size, halves = 14, 256, 210, (208,)

    @staticmethod
    def quantise(x):
        scales = np.abs(x.reshape(len(x), 16, 16)).max(2) / 32
        scale = rounded(scales.max(1, keepdims=True) / 127)
        small = steps(scales, scale, -128, 127)
        q = steps(x, spread(scale * small.astype(F32), 16), -32, 31) + 32
        # The low four bits: of each 128 the first 64 are low nibbles.
        low = (q & 15).reshape(len(q), 2, 2, 64)
        nibbles = (low[:, :, 0] | low[:, :, 1] << 4).reshape(len(q), -1).astype(np.uint8)
        parts = [nibbles, pack_runs(q >> 4, 4, 2), small.astype(np.int8).view(np.uint8)]
        return np.concatenate([*parts, half_bytes(scale)], axis=1)

    @staticmethod
    def dequantise(b):
        nibbles = b[:, :128].reshape(len(b), 2, 64)
        low = np.stack([nibbles & 15, nibbles >> 4], axis=2).reshape(len(b), 256).astype(np.int32)
        q = low + 16 * unpack_runs(b[:, 128:192], 4, 2) - 32
        step = half(b, 208) * b[:, 192:208].copy().view(np.int8).astype(F32)
        return spread(step, 16) * q.astype(F32)


BLOCK_FORMATS = {f.__name__: f for f in (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K)}


def quantise(name, values):
    """The bytes of an f32 array whose rows are whole blocks."""
    block = BLOCK_FORMATS[name]
    return block.quantise(np.ascontiguousarray(values, F32).reshape(-1, block.weights)).tobytes()


def dequantise(name, data):
    block = BLOCK_FORMATS[name]
    return block.dequantise(np.frombuffer(data, np.uint8).reshape(-1, block.size)).astype(F32)


def random_blocks(name, count, rng):
    """Random bytes whose f16 numbers are finite: the first blocks have zeros, subnormals and the largest."""
    block = BLOCK_FORMATS[name]
    special = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00], np.uint16)
    data = rng.integers(0, 256, (count, block.size), np.uint8)
    for at in block.halves:
        values = rng.integers(0, 1 << 16, count, np.uint16)
        values = np.where(values & 0x7C00 == 0x7C00, values & 0x83FF, values).astype(np.uint16)
        values[:64] = rng.choice(special, 64)
        data[:, at:at + 2] = values.reshape(-1, 1).view(np.uint8)
    return data.tobytes()
