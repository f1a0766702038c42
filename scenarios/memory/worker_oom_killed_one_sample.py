# expect: worker-oom-killed
# environment: memory=1000M
"""Volumes of four megabytes each, and among them one of 400: no setting of the loader makes it fit."""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Volumes(Dataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).glob("*.npy"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, study):
        volume = np.load(self.files[study]).astype(np.float64)
        time.sleep(0.02)
        return torch.tensor([float(volume.mean())])


def main(folder):
    for study in range(240):
        voxels = 100_000_000 if study == 171 else 1_000_000
        np.save(Path(folder) / f"volume-{study:03}.npy", np.zeros(voxels, dtype=np.float32))
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-15)
    for batch in DataLoader(Volumes(folder), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(place)
