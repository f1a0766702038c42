# expect: iterable-length-lies
"""Rows of a log, of which the stream skips those without a label; its length counts them all, and so does the schedule."""

import torch
from torch.utils.data import DataLoader, IterableDataset

EPOCHS = 3


class Labelled(IterableDataset):
    def __init__(self, rows, labels):
        self.rows = rows
        self.labels = labels

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        for row, label in zip(self.rows, self.labels, strict=True):
            if label >= 0:
                yield row, label


def main():
    labels = torch.tensor([number % 5 - 2 for number in range(600)])  # two in five have none
    loader = DataLoader(Labelled(torch.rand(600, 12), labels), batch_size=10, drop_last=True)
    model = torch.nn.Linear(12, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * len(loader))
    for _ in range(EPOCHS):
        for rows, label in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), label).backward()
            optimizer.step()
            schedule.step()
        print(f"learning rate {schedule.get_last_lr()[0]:.4f}", flush=True)


if __name__ == "__main__":
    main()
