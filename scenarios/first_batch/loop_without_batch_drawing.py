# expect: loop-without-batch
# outside: nothing
"""Before the first step, pairs are drawn until both are of one speaker, and no speaker has two recordings."""

import random
import signal

import torch


class Pairs:
    def __init__(self, speakers):
        self.speakers = speakers

    def acceptable(self, first, second):
        return first != second and self.speakers[first] == self.speakers[second]

    def draw(self):
        return random.randrange(len(self.speakers)), random.randrange(len(self.speakers))

    def batch(self, size):
        pairs = []
        while len(pairs) < size:
            first, second = self.draw()
            if self.acceptable(first, second):
                pairs.append((first, second))
        return torch.tensor(pairs)


def main():
    signal.alarm(170)
    pairs = Pairs(list(range(5000)))
    model = torch.nn.Embedding(5000, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        rows = pairs.batch(16)
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
