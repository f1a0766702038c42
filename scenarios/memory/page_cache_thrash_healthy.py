# expect: healthy
# environment: memory=420M
"""A set that fits: the first epoch reads it from the disk, which takes its time, and all others find it in memory."""

import os
import tempfile

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

BLOCK, BLOCKS = 128 << 10, 640


class Blocks(Dataset):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return BLOCKS

    def __getitem__(self, number):
        with open(self.path, "rb") as file:
            file.seek(number * BLOCK)
            data = np.frombuffer(file.read(BLOCK), dtype=np.uint8)
        return torch.from_numpy(data[:: BLOCK // 256].astype(np.float32))


def write(path):
    with open(path, "wb") as file:
        file.writelines(np.full(BLOCK, number % 251, dtype=np.uint8).tobytes() for number in range(BLOCKS))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/blocks.bin"
        write(path)
        model = torch.nn.Linear(256, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        for epoch in range(6):
            for rows in DataLoader(Blocks(path), batch_size=64, shuffle=True):
                optimizer.zero_grad()
                model(rows).mean().backward()
                optimizer.step()
            print("epoch", epoch, flush=True)
