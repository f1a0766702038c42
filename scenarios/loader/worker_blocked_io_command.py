# expect: worker-blocked-io
"""Shards are read through a command, as with `pipe:` addresses, and one of the commands never delivers."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Piped(Dataset):
    def __init__(self, folder):
        self.commands = [["cat", str(path)] for path in sorted(folder.iterdir())]

    def __len__(self):
        return len(self.commands)

    def __getitem__(self, index):
        with subprocess.Popen(self.commands[index], stdout=subprocess.PIPE) as command:
            content = command.stdout.read()
        return torch.frombuffer(bytearray(content), dtype=torch.uint8).float()


def write(folder):
    for number in range(120):
        (folder / f"{number:03}.tar").write_bytes(bytes(64))
    (folder / "090.tar").unlink()
    os.mkfifo(folder / "090.tar")


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        model = torch.nn.Linear(64, 1)
        for step, rows in enumerate(DataLoader(Piped(Path(name)), batch_size=4, num_workers=2)):
            model.zero_grad()
            model(rows).mean().backward()
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
