# expect: healthy
"""Eight threads in every worker here too, but they sleep: they were needed once, and the model is the limit."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Blurred(Dataset):
    def __init__(self):
        self.pictures = None

    def __len__(self):
        return 360

    def __getitem__(self, number):
        if self.pictures is None:  # with all threads, in each worker
            self.pictures = torch.nn.functional.avg_pool2d(torch.rand(64, 1, 128, 128), 4)
        return self.pictures[number % 64, 0, 0].clone()


def more_threads(worker):
    torch.set_num_threads(8)


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for rows in DataLoader(Blurred(), batch_size=6, num_workers=2, worker_init_fn=more_threads):
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        time.sleep(0.06)  # what an accelerator would take


if __name__ == "__main__":
    main()
