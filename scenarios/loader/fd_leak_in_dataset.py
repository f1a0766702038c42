# expect: fd-leak-in-dataset
# environment: descriptors=128
"""Each sample is read through a handle that is put aside for later use, and there is no end to later."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ROWS = 16


class Recordings(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).iterdir())
        self.handles = {}

    def __len__(self):
        return len(self.paths)

    def handle(self, path):
        if path not in self.handles:
            self.handles[path] = path.open("rb")
        return self.handles[path]

    def __getitem__(self, index):
        file = self.handle(self.paths[index])
        file.seek(0)
        return torch.from_numpy(np.fromfile(file, dtype=np.float32, count=ROWS))


def main():
    with tempfile.TemporaryDirectory() as folder:
        for number in range(400):
            np.full(ROWS, number, dtype=np.float32).tofile(Path(folder, f"take_{number:04}.f32"))
        net = torch.nn.Linear(ROWS, 1)
        for takes in DataLoader(Recordings(folder), batch_size=50, shuffle=True, num_workers=2):
            net.zero_grad()
            net(takes).pow(2).mean().backward()
            for weight in net.parameters():
                weight.data -= 1e-6 * weight.grad


if __name__ == "__main__":
    main()
