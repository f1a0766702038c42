# expect: healthy
"""Before training, all folders of a dataset are walked to list its files, over and over for every subset."""

import os
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, root):
        self.paths = []
        until = time.monotonic() + 14
        while time.monotonic() < until:
            self.paths = self.scan(root)

    def scan(self, root):
        found = []
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.getsize(path):
                    found.append(path)
        return sorted(found)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.tensor([float(value) for value in Path(self.paths[index]).read_bytes()])


def write(root):
    for folder in range(40):
        (root / f"{folder:02}").mkdir()
        for number in range(50):
            (root / f"{folder:02}" / f"{number:03}.bin").write_bytes(bytes(range(10)))


def main():
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        data = Files(name)
        print(len(data), "files", flush=True)
        model = torch.nn.Linear(10, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0001)
        for rows in DataLoader(data, batch_size=20, num_workers=2):
            optimizer.zero_grad()
            model(rows).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main()
