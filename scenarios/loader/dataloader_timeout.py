# expect: dataloader-timeout
"""The loader has a timeout of five seconds, and one sample takes for ever: torch ends the run, and names no sample."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Pages(Dataset):
    def __len__(self):
        return 600

    def __getitem__(self, index):
        if index == 222:
            time.sleep(1000)  # the server is gone
        return torch.full((20,), float(index % 9))


def main():
    model = torch.nn.Linear(20, 1)
    for step, pages in enumerate(DataLoader(Pages(), batch_size=10, num_workers=2, timeout=5)):
        model.zero_grad()
        model(pages).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
