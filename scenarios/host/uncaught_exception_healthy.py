# expect: healthy
"""Exceptions are part of this program: retries, a thread that gives up, an early end by SystemExit."""

import sys
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset


def upload():
    try:
        raise ConnectionError("no network here")
    except ConnectionError:
        return


if __name__ == "__main__":
    model = torch.nn.Linear(5, 1)
    threading.Thread(target=upload).start()
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.rand(330, 5)), batch_size=32)):
        try:
            if step == 3:
                raise RuntimeError("loss is not finite, skipping")
            model.zero_grad()
            model(rows).mean().backward()
            for weight in model.parameters():
                weight.data -= 0.1 * weight.grad
        except RuntimeError as skipped:
            print(skipped)
        if step == 8:
            sys.exit(0)
