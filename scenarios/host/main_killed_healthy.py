# expect: healthy
"""The program ends itself with SIGTERM after its work, as a pre-emption hook may do: a decision, not a crash."""

import os
import signal

import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    model = torch.nn.Linear(6, 2)
    for (x,) in DataLoader(TensorDataset(torch.rand(400, 6)), batch_size=10, num_workers=1):
        model.zero_grad()
        model(x).sum().backward()
        for weight in model.parameters():
            weight.data -= 0.1 * weight.grad
    signal.signal(signal.SIGTERM, lambda *_: exit(0))
    os.kill(os.getpid(), signal.SIGTERM)
