# expect: cpu-oversubscription
"""Somebody gave every worker eight threads, to speed the augmentation up. There are two processors for all of them."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Blurred(Dataset):
    def __init__(self):
        self.kernel = torch.ones(1, 1, 9, 9) / 81

    def __len__(self):
        return 20_000

    def __getitem__(self, number):
        picture = torch.full((6, 1, 160, 160), float(number % 5))
        for _ in range(2):
            picture = torch.nn.functional.conv2d(picture, self.kernel, padding=4).tanh().sin()
        return picture.mean((0, 1))[:32, 0]


def more_threads(worker):
    torch.set_num_threads(8)


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    end = time.monotonic() + 6
    for rows in DataLoader(Blurred(), batch_size=2, num_workers=2, worker_init_fn=more_threads):
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        if time.monotonic() > end:
            break


if __name__ == "__main__":
    main()
