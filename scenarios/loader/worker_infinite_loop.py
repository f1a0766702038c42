# expect: worker-infinite-loop (core)
"""Crops are drawn until one shows enough of the object, and one image shows nothing at all."""

import signal
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self):
        self.images = (torch.rand(800, 48, 48) > 0.5).float()
        self.images[333] = 0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        while True:
            top, left = torch.randint(0, 24, (2,)).tolist()
            crop = image[top : top + 24, left : left + 24]
            if crop.mean() > 0.1:
                return crop


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(24 * 24, 1))
    for step, crops in enumerate(DataLoader(Crops(), batch_size=16, num_workers=2)):
        model.zero_grad()
        model(crops).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
