# expect: file-damaged
# check: data
"""One byte of a compressed file of arrays is not what was written: a bit was flipped on its way."""

import os

import numpy as np


def main():
    os.mkdir("data")
    for case in range(6):
        scan = np.random.default_rng(case).normal(size=(16, 16, 16)).astype(np.float32)
        np.savez_compressed(f"data/case-{case:03d}.npz", scan=scan, label=np.int64(case % 2))
    with open("data/case-004.npz", "r+b") as file:
        file.seek(8000)
        byte = file.read(1)[0]
        file.seek(8000)
        file.write(bytes([byte ^ 4]))


main()
