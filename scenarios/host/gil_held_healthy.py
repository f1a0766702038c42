# expect: healthy
"""A thread waits in a native client without the GIL, another computes in Python all the time: the training has its turn."""

import ctypes
import os
import signal
import threading
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


def report():
    """CDLL releases the GIL during the call."""
    receive = ctypes.CDLL(None).read
    answers, _ = os.pipe()
    receive(answers, ctypes.create_string_buffer(8), 8)


def summarise():
    total = 0
    while True:
        total = (total * 31 + 7) % 1_000_003


def main():
    signal.alarm(150)
    threading.Thread(target=report, name="metrics", daemon=True).start()
    threading.Thread(target=summarise, name="summary", daemon=True).start()
    model = torch.nn.Linear(9, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.rand(600, 9)), batch_size=10)):
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
        print("step", step, flush=True)
        time.sleep(0.3)


if __name__ == "__main__":
    main()
