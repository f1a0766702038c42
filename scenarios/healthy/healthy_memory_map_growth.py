# expect: healthy
"""Tokens lie in a mapped file: memory seems to grow by all that was read of it, and the kernel can have it back."""

import tempfile
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

MEGABYTES = 800


class Tokens(Dataset):
    def __init__(self, path):
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self):
        return MEGABYTES

    def __getitem__(self, index):
        part = self.tokens[index << 19 : (index + 1) << 19]
        return torch.from_numpy(part.reshape(64, -1).sum(1).astype(np.float32))


def main():
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(MEGABYTES):
            file.write(bytes(1 << 20))
        file.flush()
        model = torch.nn.Linear(64, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step, rows in enumerate(DataLoader(Tokens(file.name), batch_size=4, num_workers=1)):
            optimizer.zero_grad()
            model(rows).mean().backward()
            optimizer.step()
            time.sleep(0.07)  # what an accelerator would take
            if step % 20 == 0:
                print("step", step, flush=True)


if __name__ == "__main__":
    main()
