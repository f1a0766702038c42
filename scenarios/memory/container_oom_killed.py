# expect: container-oom-killed
# environment: memory=1200M container
"""The container's memory limit is reached, its first process is chosen, and everything in it goes at once."""

import torch
from torch.utils.data import DataLoader, Dataset


class Growing(Dataset):
    def __init__(self):
        self.kept = []

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        self.kept.append(torch.ones(250_000))
        return self.kept[-1][:16] * index


def loop():
    head = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=1e-9)
    for step, batch in enumerate(DataLoader(Growing(), batch_size=8, num_workers=2)):
        optimizer.zero_grad()
        head(batch).sum().backward()
        optimizer.step()
        if step % 25 == 0:
            print("step", step, flush=True)


if __name__ == "__main__":
    loop()
