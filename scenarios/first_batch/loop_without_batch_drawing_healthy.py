# expect: healthy
"""Before the first step, sequences are packed in Python, for more than a minute: few lines, no file, but a plan that grows."""

import random
import signal
import time

import torch

ROOM = 2048


def packed(lengths, seconds):
    """First fit: each goes into the first of the newest bins that has room for it."""
    bins, until = [], time.monotonic() + seconds
    for number, length in enumerate(lengths):
        for one in bins[-400:]:
            if sum(lengths[other] for other in one) + length <= ROOM:
                one.append(number)
                break
        else:
            bins.append([number])
        if time.monotonic() > until:
            break
    return bins


def main():
    signal.alarm(170)
    plan = packed([random.randint(900, 1900) for _ in range(3_000_000)], 68)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, one in zip(range(30), plan, strict=False):
        optimizer.zero_grad()
        model(torch.rand(len(one), 8)).mean().backward()
        optimizer.step()
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
