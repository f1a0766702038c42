# expect: fork-after-openmp
"""The main process has used its OpenMP threads; a forked worker asks for two of them, and they do not exist there."""

import signal
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __init__(self, scale):
        self.scale = scale

    def __len__(self):
        return 64

    def __getitem__(self, index):
        ramp = torch.linspace(0, index + 1, 1_000_000)
        return (torch.exp(-ramp) * self.scale)[:128]


def more_threads(worker):
    torch.set_num_threads(2)


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    torch.set_num_threads(2)
    scale = torch.exp(torch.randn(4_000_000)).mean()
    model = torch.nn.Linear(128, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Noise(scale), batch_size=4, num_workers=2, worker_init_fn=more_threads)
    for step, batch in enumerate(loader):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
