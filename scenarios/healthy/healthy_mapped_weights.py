# expect: healthy
# environment: reading=1M
"""Weights are a mapped file on slow storage: one line waits in page faults for half a minute, and pages keep coming."""

import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

SIZE = 24 << 20


def write(path):
    with path.open("wb") as file:
        file.write(np.random.default_rng(0).standard_normal(SIZE // 8).tobytes())
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "weights.bin")
        write(path)
        stored = np.memmap(path, dtype=np.float64, mode="r")
        model = torch.nn.Linear(64, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        scale = float(np.abs(stored).mean())  # touches every page
        for (rows,) in DataLoader(TensorDataset(torch.randn(256, 64)), batch_size=32, num_workers=1):
            loss = (model(rows) * scale).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
