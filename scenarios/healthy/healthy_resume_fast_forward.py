# expect: healthy
"""A resumed run passes over the batches that it had already seen: no step is made for a while, then training goes on."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

SEEN = 140


class Images(Dataset):
    def __len__(self):
        return 1600

    def __getitem__(self, index):
        time.sleep(0.025)
        return torch.full((100,), float(index % 19))


def main():
    torch.manual_seed(7)
    model = torch.nn.Linear(100, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step, rows in enumerate(DataLoader(Images(), batch_size=8, shuffle=True, num_workers=2)):
        if step < SEEN:
            continue
        if step == SEEN:
            print("resumed at step", step, flush=True)
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
        time.sleep(0.1)  # what an accelerator would take


if __name__ == "__main__":
    main()
