# expect: healthy
# environment: memory=1000M
"""Memory goes up to two thirds of the limit and stays there: a replay buffer that is full."""

import collections

import torch
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __len__(self):
        return 280

    def __getitem__(self, i):
        return torch.rand(250_000)


if __name__ == "__main__":
    buffer = collections.deque(maxlen=6)
    net = torch.nn.Linear(100, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for frames in DataLoader(Frames(), batch_size=40):
        buffer.append(frames)
        opt.zero_grad()
        net(frames[:, :100]).mean().backward()
        opt.step()
    print(len(buffer), "in the buffer")
