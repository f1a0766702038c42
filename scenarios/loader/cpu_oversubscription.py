# expect: cpu-oversubscription
"""Somebody gave every worker eight threads, to speed the augmentation up. There are two processors for all of them."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Relaxed(Dataset):
    """Many small operations, each of which is shared out among all threads."""

    def __len__(self):
        return 20_000

    def __getitem__(self, number):
        field = torch.full((200, 200), float(number % 5))
        for _ in range(150):
            field = (field * 0.99 + 0.01).tanh()
        return field[0, :32]


def more_threads(worker):
    torch.set_num_threads(8)


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    end = time.monotonic() + 6
    for rows in DataLoader(Relaxed(), batch_size=2, num_workers=2, worker_init_fn=more_threads):
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        if time.monotonic() > end:
            break


if __name__ == "__main__":
    main()
