# expect: worker-start-slow
"""Every worker reads a dictionary of surnames from a slow share in worker_init_fn, before it loads anything."""

import time

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Letters(Dataset):
    def __init__(self):
        self.surnames = None

    def __len__(self):
        return 400

    def __getitem__(self, number):
        return torch.full((24,), float(self.surnames[number % len(self.surnames)]))


def read_surnames(worker):
    dataset = get_worker_info().dataset
    dataset.surnames = []
    for part in range(11):
        time.sleep(0.5)  # one file of it, from the share
        dataset.surnames += [part, worker]


def main():
    model = torch.nn.Linear(24, 2)
    loader = DataLoader(Letters(), batch_size=10, num_workers=2, worker_init_fn=read_surnames)
    for letters in loader:
        model.zero_grad()
        model(letters).square().mean().backward()
        for weight in model.parameters():
            weight.data -= 1e-6 * weight.grad
        time.sleep(0.05)  # what an accelerator would take
    print("done", flush=True)


if __name__ == "__main__":
    main()
