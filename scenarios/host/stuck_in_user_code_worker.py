# expect: stuck-in-user-code
"""A worker looks every tenth of a second whether a feature file is there, and the program that makes it has crashed."""

import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Features(Dataset):
    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return 320

    def __getitem__(self, index):
        path = self.folder / f"{index}.pt"
        while not path.exists():
            time.sleep(0.1)
        return torch.load(path)


def extract(folder, count):
    for index in range(count):
        torch.save(torch.full((30,), float(index % 4)), folder / f"{index}.pt")


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    with tempfile.TemporaryDirectory() as name:
        extract(Path(name), 150)
        model = torch.nn.Linear(30, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step, rows in enumerate(DataLoader(Features(Path(name)), batch_size=8, num_workers=2)):
            optimizer.zero_grad()
            model(rows).mean().backward()
            optimizer.step()
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
