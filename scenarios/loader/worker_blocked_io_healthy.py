# expect: healthy
"""One sample comes through a named pipe from a slow download: a few bytes every half second, until it is complete."""

import os
import subprocess
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

SLOW_DOWNLOAD = 'for part in $(seq 27); do printf "%64s" "$part"; sleep 0.5; done > "$1"'


class Shards(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.iterdir())

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with self.files[index].open("rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[:64].float()


def write(folder):
    for number in range(64):
        (folder / f"{number:03}.bin").write_bytes(bytes(64))
    (folder / "040.bin").unlink()
    os.mkfifo(folder / "040.bin")


def main():
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        with subprocess.Popen(["sh", "-c", SLOW_DOWNLOAD, "download", f"{name}/040.bin"]):
            model = torch.nn.Linear(64, 1)
            for step, rows in enumerate(DataLoader(Shards(Path(name)), batch_size=8, num_workers=2)):
                model.zero_grad()
                model(rows).mean().backward()
                for weight in model.parameters():
                    weight.data -= 0.01 * weight.grad
                print("step", step, flush=True)


if __name__ == "__main__":
    main()
