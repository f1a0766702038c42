# expect: healthy
"""Ten workers on two processors, with reason: each sample waits for a remote store, and all of them together keep up."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, clip):
        time.sleep(0.04)  # the store answers
        return torch.full((64,), float(clip))


def main():
    torch.set_num_threads(1)
    head = torch.nn.Linear(64, 8)
    optimizer = torch.optim.SGD(head.parameters(), lr=1e-4)
    for features in DataLoader(Clips(), batch_size=4, num_workers=10):
        optimizer.zero_grad()
        head(features).square().mean().backward()
        optimizer.step()
        time.sleep(0.06)  # what an accelerator would take


if __name__ == "__main__":
    main()
