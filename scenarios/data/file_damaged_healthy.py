# expect: healthy
# check: data --decode
"""Arrays in every form that numpy and safetensors write, all of them as they were written."""

import os

import numpy as np
from safetensors.numpy import save_file


def main():
    os.mkdir("data")
    for case in range(6):
        dice = np.random.default_rng(case)
        scan = dice.normal(size=(16, 16, 16)).astype(np.float32)
        save = np.savez_compressed if case % 2 else np.savez
        save(f"data/case-{case:03d}.npz", scan=scan, label=np.int64(case % 2), empty=np.zeros((0, 3)))
        np.save(f"data/mask-{case:03d}.npy", scan > 0)
        save_file({"latent": scan, "scale": np.float32([1.5])}, f"data/latent-{case:03d}.safetensors")
    np.save("data/mixed.npy", np.array([("a", 1.5)], dtype=[("name", "U4"), ("value", "f8")]))


main()
