# expect: healthy
"""The thread lives and has much to compute for one of its answers, so the loop waits for it, and goes on."""

import queue
import threading
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def weigh(asked, answers):
    matrix = np.random.default_rng(0).standard_normal((200, 200))
    while True:
        until = time.monotonic() + (18 if asked.get() == 20 else 0.001)
        while time.monotonic() < until:
            matrix = np.linalg.qr(matrix)[0]
        answers.put(float(np.abs(matrix).max()))


def main():
    asked, answers = queue.Queue(), queue.Queue()
    threading.Thread(target=weigh, args=(asked, answers), name="weigher", daemon=True).start()
    model = torch.nn.Linear(9, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.rand(500, 9)), batch_size=10, num_workers=2)):
        asked.put(step)
        optimizer.zero_grad()
        loss = model(rows).mean() * answers.get()
        loss.backward()
        optimizer.step()
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
