#!/usr/bin/env python3
"""make_block_cases.py FOLDER: for each block format NAME.blocks (random bytes, finite scales) and NAME.f32 (their weights
according to numpy), for block_formats_numpy_test."""
import sys
from pathlib import Path

import numpy as np

from block_formats import BLOCK_FORMATS, dequantise, random_blocks

BLOCKS = 2000


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(6)
    for name in BLOCK_FORMATS:
        data = random_blocks(name, BLOCKS, rng)
        (folder / f"{name}.blocks").write_bytes(data)
        (folder / f"{name}.f32").write_bytes(dequantise(name, data).tobytes())


if __name__ == "__main__":
    main()
