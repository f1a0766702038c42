# expect: uncaught-exception
"""The loader is made, but its iterator is not: the sampler's file of weights was never written."""

import torch
from torch.utils.data import DataLoader, Sampler


class FromFile(Sampler):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 100

    def __iter__(self):
        with open(self.path) as weights:
            yield from torch.multinomial(torch.tensor([float(line) for line in weights]), len(self)).tolist()


if __name__ == "__main__":
    for _ in DataLoader(torch.zeros(100, 3), batch_size=4, num_workers=2, sampler=FromFile("/nowhere/weights.txt")):
        pass
