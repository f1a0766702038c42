# expect: worker-killed
"""Somebody ends one of the workers with SIGKILL while batches are in flight."""

import os
import signal

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Tokens(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        if index == 1234:
            os.kill(os.getpid(), signal.SIGKILL)
        info = get_worker_info()
        return torch.full((64,), index % 97 + (info.id if info else 0), dtype=torch.float32)


def train():
    model = torch.nn.Linear(64, 1)
    for batch in DataLoader(Tokens(), batch_size=20, num_workers=3, prefetch_factor=4):
        model.zero_grad()
        model(batch).mean().backward()
        for weight in model.parameters():
            weight.data -= 1e-4 * weight.grad


if __name__ == "__main__":
    train()
