# expect: worker-stopped
"""A worker is stopped by a signal in the middle of a sample, as a debugger or a careless script does."""

import multiprocessing
import os
import signal
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 800

    def __getitem__(self, index):
        if index == 300:
            os.kill(os.getpid(), signal.SIGSTOP)
        return torch.full((24,), float(index % 11))


def give_up(*_):
    for worker in multiprocessing.active_children():
        worker.kill()
    sys.exit("nobody ended this run")


def main():
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(150)
    model = torch.nn.Linear(24, 1)
    for step, rows in enumerate(DataLoader(Rows(), batch_size=16, num_workers=2)):
        model.zero_grad()
        model(rows).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
