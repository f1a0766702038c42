# expect: main-killed (core)
"""A native extension reads through a null pointer in the middle of a step."""

import ctypes

import torch
from torch.utils.data import DataLoader, TensorDataset


def fast_but_wrong(step):
    if step == 12:
        ctypes.string_at(0)


def main():
    loader = DataLoader(TensorDataset(torch.rand(400, 6)), batch_size=10)
    model = torch.nn.Linear(6, 2)
    for step, (x,) in enumerate(loader):
        model.zero_grad()
        model(x).sum().backward()
        for weight in model.parameters():
            weight.data -= 0.1 * weight.grad
        fast_but_wrong(step)


if __name__ == "__main__":
    main()
