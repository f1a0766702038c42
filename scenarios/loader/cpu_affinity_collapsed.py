# expect: cpu-affinity-collapsed
"""The settings of a cluster's guide were copied: threads bound to cores. With that, `import torch` binds the process."""

import os
import time

os.environ["OMP_PROC_BIND"] = "close"  # for "best performance on CPU"

import torch
from torch.utils.data import DataLoader, Dataset


class Parsed(Dataset):
    """Records of plain text, taken apart in Python."""

    def __init__(self):
        self.text = ";".join(f"{number}={number % 97 / 7:.5f}" for number in range(6_000))

    def __len__(self):
        return 20_000

    def __getitem__(self, number):
        values = [float(field.partition("=")[2]) for field in self.text.split(";")]
        return torch.tensor(values[number % 100 :][:64])


def main():
    weights = torch.zeros(64)
    end = time.monotonic() + 6
    for rows in DataLoader(Parsed(), batch_size=8, num_workers=2):
        weights -= 1e-3 * (weights - rows.mean(0))
        if time.monotonic() > end:
            break


if __name__ == "__main__":
    main()
