# expect: healthy
"""The same schedule with a length that is right. Two workers bring one batch more than announced: each has a last one."""

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

EPOCHS = 3


class Labelled(IterableDataset):
    def __init__(self, rows, labels):
        self.rows = rows
        self.labels = labels

    def __len__(self):
        return int((self.labels >= 0).sum())

    def __iter__(self):
        info = get_worker_info()
        kept = [number for number in range(len(self.rows)) if self.labels[number] >= 0]
        for number in kept[info.id :: info.num_workers]:
            yield self.rows[number], self.labels[number]


def main():
    labels = torch.tensor([number % 5 - 2 for number in range(103)])
    loader = DataLoader(Labelled(torch.rand(103, 12), labels), batch_size=10, num_workers=2)
    model = torch.nn.Linear(12, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * len(loader))
    for _ in range(EPOCHS):
        brought = 0
        for rows, label in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), label).backward()
            optimizer.step()
            schedule.step()
            brought += 1
        print(brought, "batches of", len(loader), flush=True)


if __name__ == "__main__":
    main()
