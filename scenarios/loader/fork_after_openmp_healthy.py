# expect: healthy
"""The same threads in spawned workers, which make their own: the first sample is long, and both threads compute it."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __init__(self, scale):
        self.scale = scale

    def __len__(self):
        return 24

    def __getitem__(self, index):
        ramp = torch.linspace(0, index + 1, 1_000_000)
        until = time.monotonic() + (14 if index == 0 else 0.01)
        while time.monotonic() < until:
            ramp = torch.exp(-ramp)
            time.sleep(0.002)
        return (ramp * self.scale)[:128].clone()


def more_threads(worker):
    torch.set_num_threads(2)


def main():
    torch.set_num_threads(2)
    scale = torch.exp(torch.randn(4_000_000)).mean()
    model = torch.nn.Linear(128, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Noise(scale), batch_size=4, num_workers=1, worker_init_fn=more_threads, multiprocessing_context="spawn"
    )
    for step, batch in enumerate(loader):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
