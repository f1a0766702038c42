# expect: healthy
"""Rides are shuffled once and written in that order: blocks of them are read in one piece."""

import time

import datasets
import torch
from torch.utils.data import DataLoader, Dataset

datasets.disable_progress_bars()
ROWS, BLOCK = 40_000, 2_000


class Rides(Dataset):
    """Blocks of rows that follow on each other."""

    def __init__(self, rows):
        self.rows = rows.with_format("torch")

    def __len__(self):
        return len(self.rows) // BLOCK

    def __getitem__(self, number):
        return self.rows[number * BLOCK : (number + 1) * BLOCK]


def main():
    numbers = torch.arange(ROWS)
    columns = {"hour": numbers % 24, "meters": numbers % 9973, "price": (numbers % 61).float()}
    rides = datasets.Dataset.from_dict({name: column.numpy() for name, column in columns.items()})
    rides = rides.shuffle(seed=7).flatten_indices()
    loader = DataLoader(Rides(rides), batch_size=None)
    weight = torch.zeros(2, requires_grad=True)
    ends = time.monotonic() + 8  # however fast the machine is
    while time.monotonic() < ends:
        for block in loader:
            inputs = torch.stack([block["hour"] / 24, block["meters"] / 9973], dim=1)
            loss = ((inputs @ weight) - block["price"]).pow(2).mean()
            loss.backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
                weight.grad = None
    print(f"loss {loss.item():.2f}")


if __name__ == "__main__":
    main()
