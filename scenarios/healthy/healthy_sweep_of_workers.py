# expect: healthy
"""A benchmark makes its loader by one line, with 0, 1 and 2 workers, and trains a little with each. Nothing is wrong."""

import torch
from torch.utils.data import DataLoader, Dataset

SAMPLES, BATCH = 240, 8


class Rows(Dataset):
    def __init__(self):
        self.rows = torch.rand(SAMPLES, 16)
        self.best = float("inf")  # as who keeps a best loss has it: Python's json writes it as no JSON at all

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return self.rows[index]


def make_loader(rows, workers):
    return DataLoader(rows, batch_size=BATCH, num_workers=workers)


def main():
    torch.set_num_threads(1)
    rows = Rows()
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for workers in (0, 1, 2):
        loader = make_loader(rows, workers)
        for _ in range(2):
            for batch in loader:
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()


if __name__ == "__main__":
    main()
