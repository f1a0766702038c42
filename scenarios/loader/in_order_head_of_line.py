# expect: in-order-head-of-line
"""Now and then a sample takes three seconds; the other three workers are done and wait, for batches come in order."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Mixed(Dataset):
    def __len__(self):
        return 2400

    def __getitem__(self, index):
        if index % 480 == 240:
            time.sleep(3)  # this one has to be thawed
        return torch.full((64,), float(index % 17))


def main():
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for step, rows in enumerate(DataLoader(Mixed(), batch_size=8, num_workers=4)):
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
        time.sleep(0.01)  # what an accelerator would take
        if step % 20 == 0:
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
