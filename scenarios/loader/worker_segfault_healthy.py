# expect: healthy
"""A decoder that crashes now and then, kept in a process of its own: who crashes is its helper, and the worker goes on."""

import signal
import subprocess

import torch
from torch.utils.data import DataLoader, Dataset

DAMAGED = {17, 58}


class Decoded(Dataset):
    def __len__(self):
        return 72

    def decoder(self, number):
        """Stands for a native tool that is given one file."""
        return ["sh", "-c", "kill -SEGV $$" if number in DAMAGED else f"echo {number}"]

    def __getitem__(self, number):
        ended = subprocess.run(self.decoder(number), stdout=subprocess.PIPE, check=False)
        if ended.returncode == -signal.SIGSEGV:
            return torch.zeros(9)
        return torch.full((9,), float(ended.stdout))


def train():
    model = torch.nn.Linear(9, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for batch in DataLoader(Decoded(), batch_size=8, num_workers=2):
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    train()
    print("done")
