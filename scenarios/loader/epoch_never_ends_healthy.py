# expect: healthy
"""The same stream without end, cut into epochs of so many steps, many more than its nominal length."""

import time
import warnings

import torch
from torch.utils.data import DataLoader, IterableDataset

STEPS = 800


class Resampled(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __iter__(self):
        while True:
            yield self.samples[int(torch.randint(len(self.samples), ()))]


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of torch, that there are more samples than there should be
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(Resampled(torch.rand(640, 64)), batch_size=16)
    for epoch in range(3):
        for step, rows in enumerate(loader):
            optimizer.zero_grad()
            model(rows).mean().backward()
            optimizer.step()
            time.sleep(0.005)  # what an accelerator would take
            if step % 100 == 0:
                print("epoch", epoch, "step", step, "of", len(loader), flush=True)
            if step + 1 == STEPS:
                break
        torch.save(model.state_dict(), "/dev/null")
    print("three epochs done")


if __name__ == "__main__":
    main()
