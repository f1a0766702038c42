# expect: healthy
"""The same annotations in a file that the spawned worker opens itself: what it is sent is a path."""

import tempfile

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Annotations(Dataset):
    def __init__(self, path):
        self.path = path
        self.boxes = None

    def __len__(self):
        return 160

    def __getitem__(self, number):
        if self.boxes is None:
            self.boxes = np.load(self.path, mmap_mode="r")
        return torch.from_numpy(self.boxes[number].copy())


def main():
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file, np.arange(4_000_000, dtype=np.float32).reshape(-1, 4))
        file.flush()
        loader = DataLoader(Annotations(file.name), batch_size=8, num_workers=1, multiprocessing_context="spawn")
        model = torch.nn.Linear(4, 1)
        for boxes in loader:
            model.zero_grad()
            model(boxes).mean().backward()
            for weight in model.parameters():
                weight.data -= 1e-12 * weight.grad
    print("done", flush=True)


if __name__ == "__main__":
    main()
