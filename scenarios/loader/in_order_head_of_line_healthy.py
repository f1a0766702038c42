# expect: healthy
"""The same slow samples with in_order=False: batches that are done are used while the slow one is awaited."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Mixed(Dataset):
    def __len__(self):
        return 3200

    def __getitem__(self, index):
        if index % 640 == 20:
            time.sleep(3)  # this one has to be thawed
        return torch.full((64,), float(index % 17))


def main():
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for step, rows in enumerate(DataLoader(Mixed(), batch_size=8, num_workers=4, in_order=False)):
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
        time.sleep(0.03)  # what an accelerator would take
        if step % 20 == 0:
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
