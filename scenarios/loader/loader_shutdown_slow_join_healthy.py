# expect: healthy
"""Every epoch is left early, with samples on their way: the workers are joined each time, and it takes a moment only."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        if index >= 64:
            time.sleep(0.35)
        return torch.full((48,), float(index % 13))


def main():
    model = torch.nn.Linear(48, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Clips(), batch_size=4, num_workers=4)
    for epoch in range(9):
        for step, clips in enumerate(loader):
            optimizer.zero_grad()
            model(clips).mean().backward()
            optimizer.step()
            if step == 11:
                break
        print("epoch", epoch, "left early", flush=True)


if __name__ == "__main__":
    main()
