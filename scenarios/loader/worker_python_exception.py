# expect: worker-python-exception (core)
"""A classifier on small image-like files, one of which was cut short while it was copied."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 24


class Scans(Dataset):
    def __init__(self, folder):
        self.folder = folder
        self.files = sorted(folder.glob("*.raw"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path = self.files[i]
        pixels = np.frombuffer(path.read_bytes(), dtype=np.float32).reshape(SIDE, SIDE)
        return torch.from_numpy(pixels.copy()), i % 2


def write_files(folder):
    random = np.random.default_rng(0)
    for number in range(320):
        (folder / f"scan_{number:04}.raw").write_bytes(random.random((SIDE, SIDE), dtype=np.float32).tobytes())
    (folder / "scan_0203.raw").write_bytes((folder / "scan_0203.raw").read_bytes()[:777])


def main():
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name))
        loader = DataLoader(Scans(Path(name)), batch_size=16, num_workers=2)
        model = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for epoch in range(2):
            for step, (images, labels) in enumerate(loader):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
                if step % 5 == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
