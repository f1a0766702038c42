# expect: dataloader-bound
"""num_workers was left at its default, and every sample waits for a slow store."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, key):
        time.sleep(0.02)
        return torch.tensor([float(key)])


if __name__ == "__main__":
    net = torch.nn.Linear(1, 1)
    opt = torch.optim.Adam(net.parameters())
    for x in DataLoader(Remote(), batch_size=10, shuffle=True):
        opt.zero_grad()
        net(x).mean().backward()
        opt.step()
