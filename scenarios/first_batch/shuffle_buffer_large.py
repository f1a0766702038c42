# expect: shuffle-buffer-large
"""A stream of clicks is shuffled in a buffer that takes in most of it, and the buffer is filled anew every epoch."""

import random
import time

import torch
from torch.utils.data import DataLoader, IterableDataset


class Clicks(IterableDataset):
    def __init__(self, count, room):
        self.count = count
        self.room = room

    def read(self):
        for number in range(self.count):
            time.sleep(0.003)  # what the object store takes for one
            yield {"user": number % 31, "item": number % 57}

    def __iter__(self):
        waiting = []
        for click in self.read():
            waiting.append(click)
            if len(waiting) >= self.room:
                yield self.encode(waiting.pop(random.randrange(len(waiting))))
        random.shuffle(waiting)
        yield from map(self.encode, waiting)

    def encode(self, click):
        return torch.tensor([click["user"], click["item"]], dtype=torch.float32)


def main():
    model = torch.nn.Linear(2, 1)
    loader = DataLoader(Clicks(900, room=750), batch_size=30, num_workers=1)
    for epoch in range(3):
        for clicks in loader:
            model.zero_grad()
            model(clicks).square().mean().backward()
            for weight in model.parameters():
                weight.data -= 1e-6 * weight.grad
            time.sleep(0.03)  # what an accelerator would take
        print("epoch", epoch, "done", flush=True)


if __name__ == "__main__":
    main()
