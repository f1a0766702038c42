# expect: page-cache-thrash
# environment: memory=420M
"""A set larger than the memory that is left for the page cache: every epoch reads all of it from the disk again."""

import os
import tempfile
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

BLOCK, BLOCKS = 128 << 10, 4096


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
    """Past the page cache as far as it goes: the training is to begin with a cold one."""
    with open(path, "wb") as file:
        for number in range(BLOCKS):
            file.write(np.full(BLOCK, number % 251, dtype=np.uint8).tobytes())
            if number % 512 == 511:
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
        epoch, end = 0, time.monotonic() + 6
        while epoch < 3 or time.monotonic() < end:
            for rows in DataLoader(Blocks(path), batch_size=64, shuffle=True):
                optimizer.zero_grad()
                model(rows).mean().backward()
                optimizer.step()
            epoch += 1
            print("epoch", epoch, flush=True)
