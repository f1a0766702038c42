# expect: gil-held
"""A thread reports metrics through a native client, which keeps the GIL while it waits for a server that never answers."""

import ctypes
import os
import signal
import threading
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


def report(after):
    """PyDLL keeps the GIL during the call, as an extension does that never releases it."""
    receive = ctypes.PyDLL(None).read
    answers, _ = os.pipe()
    after.wait()
    receive(answers, ctypes.create_string_buffer(8), 8)


def main():
    signal.alarm(150)
    trained = threading.Event()
    threading.Thread(target=report, args=(trained,), name="metrics", daemon=True).start()
    model = torch.nn.Linear(9, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.rand(5000, 9)), batch_size=10)):
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
        print("step", step, flush=True)
        time.sleep(0.01)
        if step == 100:
            trained.set()


if __name__ == "__main__":
    main()
