# expect: healthy
"""The same timeout and slow samples, but no batch takes longer than it."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Pages(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        time.sleep(0.85)
        return torch.full((20,), float(index % 9))


def main():
    model = torch.nn.Linear(20, 1)
    for step, pages in enumerate(DataLoader(Pages(), batch_size=4, num_workers=2, timeout=5)):
        model.zero_grad()
        model(pages).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
