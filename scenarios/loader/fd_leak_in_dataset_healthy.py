# expect: healthy
# environment: descriptors=128
"""Handles are kept here too, under the same limit, but only the newest: the oldest is closed to make room."""

import tempfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ROWS = 16
OPEN = 72


class Recordings(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).iterdir())
        self.handles = OrderedDict()

    def __len__(self):
        return len(self.paths)

    def handle(self, path):
        if path not in self.handles:
            if len(self.handles) == OPEN:
                self.handles.popitem(last=False)[1].close()
            self.handles[path] = path.open("rb")
        return self.handles[path]

    def __getitem__(self, index):
        file = self.handle(self.paths[index])
        file.seek(0)
        return torch.from_numpy(np.fromfile(file, dtype=np.float32, count=ROWS))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for number in range(400):
            np.full(ROWS, number, dtype=np.float32).tofile(Path(folder, f"take_{number:04}.f32"))
        net = torch.nn.Linear(ROWS, 1)
        for takes in DataLoader(Recordings(folder), batch_size=50, shuffle=True, num_workers=2):
            net.zero_grad()
            net(takes).pow(2).mean().backward()
            for weight in net.parameters():
                weight.data -= 1e-6 * weight.grad
    print("every take was heard")
