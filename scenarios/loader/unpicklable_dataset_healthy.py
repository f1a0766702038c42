# expect: healthy
"""Spawned workers and a dataset with a lock and an open file, which it leaves out when it is pickled."""

import tempfile
import threading

import torch
from torch.utils.data import DataLoader, Dataset


class Lines(Dataset):
    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.file = open(path)  # noqa: SIM115

    def __getstate__(self):
        return {"path": self.path, "lock": None, "file": None}

    def __len__(self):
        return 60

    def __getitem__(self, index):
        if self.file is None:
            self.lock, self.file = threading.Lock(), open(self.path)  # noqa: SIM115
        with self.lock:
            self.file.seek(index * 4)
            return torch.full((6,), float(self.file.read(4)))


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile("w") as numbers:
        numbers.writelines(f"{number:03}\n" for number in range(60))
        numbers.flush()
        model = torch.nn.Linear(6, 1)
        for rows in DataLoader(Lines(numbers.name), batch_size=10, num_workers=1, multiprocessing_context="spawn"):
            model.zero_grad()
            model(rows).mean().backward()
            for weight in model.parameters():
                weight.data -= 1e-6 * weight.grad
