# expect: worker-blocked-io (core)
"""One sample is a named pipe that a download was to be written into, and the download never began."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Shards(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.iterdir())

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with self.files[index].open("rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).float()


def write(folder):
    for number in range(200):
        (folder / f"{number:03}.bin").write_bytes(bytes(64))
    (folder / "150.bin").unlink()
    os.mkfifo(folder / "150.bin")


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        model = torch.nn.Linear(64, 1)
        for step, rows in enumerate(DataLoader(Shards(Path(name)), batch_size=8, num_workers=2)):
            model.zero_grad()
            model(rows).mean().backward()
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
