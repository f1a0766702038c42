# expect: main-oom-killed
# environment: memory=1000M
"""The training process itself keeps every batch it has seen, until the limit is reached."""

import torch
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __len__(self):
        return 10_000

    def __getitem__(self, i):
        return torch.rand(500_000)


def main():
    seen = []
    net = torch.nn.Linear(100, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for frames in DataLoader(Frames(), batch_size=4):
        seen.append(frames)
        opt.zero_grad()
        net(frames[:, :100]).mean().backward()
        opt.step()


if __name__ == "__main__":
    main()
