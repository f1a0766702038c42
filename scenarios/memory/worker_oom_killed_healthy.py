# expect: healthy
# environment: memory=1200M
"""Under the same limit, page cache fills all the memory there is, which is normal: it is given back when needed."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class OnDisk(Dataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).glob("part*"))

    def __len__(self):
        return 60

    def __getitem__(self, i):
        data = np.fromfile(self.files[i % len(self.files)], dtype=np.uint8)
        return torch.tensor(data[:: len(data) // 256][:256].astype(np.float32))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for part in range(30):
            np.zeros(50_000_000, dtype=np.uint8).tofile(Path(place) / f"part{part}")
        model = torch.nn.Linear(256, 1)
        sgd = torch.optim.SGD(model.parameters(), lr=1e-6)
        for epoch in range(2):
            for x in DataLoader(OnDisk(place), batch_size=12, num_workers=2):
                sgd.zero_grad()
                model(x).mean().backward()
                sgd.step()
            print("epoch", epoch, "done")
