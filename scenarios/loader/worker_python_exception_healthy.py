# expect: healthy
"""The same kind of data with damaged records, but the program skips them on purpose, in the dataset and in the loop."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, key):
        if key == 150:
            raise OSError(f"record {key} is unreadable")
        try:
            return self.read(key)
        except ValueError:
            return torch.zeros(8)

    def read(self, key):
        if key % 23 == 0:
            raise ValueError("damaged record")
        return torch.full((8,), float(key))


def batches(loader):
    iterator = iter(loader)
    while True:
        try:
            yield next(iterator)
        except StopIteration:
            return
        except OSError as problem:
            print("skipping a batch:", str(problem).splitlines()[0])


if __name__ == "__main__":
    net = nn.Linear(8, 1)
    adam = torch.optim.Adam(net.parameters())
    for _ in range(3):
        for x in batches(DataLoader(Records(), batch_size=10, num_workers=2)):
            adam.zero_grad()
            net(x).pow(2).mean().backward()
            adam.step()
    print("finished")
