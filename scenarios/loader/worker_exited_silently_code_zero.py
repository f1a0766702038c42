# expect: worker-exited-silently
"""A stream of events ends its process when it meets the closing mark, as if that were the end of everything."""

import os

import torch
from torch.utils.data import DataLoader, IterableDataset

CLOSING = -1.0


class Events(IterableDataset):
    def __iter__(self):
        for number in range(500):
            value = CLOSING if number == 100 else float(number % 7)
            if value == CLOSING:
                os._exit(0)
            yield torch.full((4,), value)


def main():
    net = torch.nn.Linear(4, 1)
    adam = torch.optim.Adam(net.parameters())
    for events in DataLoader(Events(), batch_size=16, num_workers=1):
        adam.zero_grad()
        net(events).mean().backward()
        adam.step()


if __name__ == "__main__":
    main()
