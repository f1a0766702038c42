# expect: healthy
"""A resumed run whose stream cannot be entered in the middle: the loader goes through 330 batches before it gives one."""

import time

import torch
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader


class Documents(IterableDataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __iter__(self):
        for number in range(4000):
            time.sleep(self.seconds)
            yield torch.full((16,), float(number % 7))


def interrupted():
    """What a run that was killed after 330 batches has left."""
    loader = StatefulDataLoader(Documents(0), batch_size=8)
    for step, _ in enumerate(loader, 1):
        if step == 330:
            return loader.state_dict()
    return {}


def main():
    model = torch.nn.Linear(16, 1)
    loader = StatefulDataLoader(Documents(0.004), batch_size=8)
    loader.load_state_dict(interrupted())
    for step, rows in enumerate(loader, 331):
        model(rows).square().mean().backward()
        for weights in model.parameters():
            weights.data -= 0.001 * weights.grad
            weights.grad = None
        time.sleep(0.05)  # what a larger model would take
        if step % 10 == 0:
            print("step", step, flush=True)
        if step == 360:
            break


if __name__ == "__main__":
    main()
