# expect: cow-refcount-growth
"""A million captions in a plain list. Forked workers only read it, and yet their memory climbs and climbs."""

import random
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Captions(Dataset):
    def __init__(self, count):
        self.captions = [f"a photograph, the number of which is {number}, taken outdoors" for number in range(count)]

    def __len__(self):
        return 560

    def __getitem__(self, number):
        drawn = random.Random(number).choices(self.captions, k=200)
        return torch.tensor([float(sum(len(caption) for caption in drawn))])


def main():
    loader = DataLoader(Captions(1_400_000), batch_size=4, num_workers=2)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-15)
    for step, lengths in enumerate(loader):
        optimizer.zero_grad()
        model(lengths).mean().backward()
        optimizer.step()
        time.sleep(0.045)  # what an accelerator would take
        if step % 40 == 0:
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
