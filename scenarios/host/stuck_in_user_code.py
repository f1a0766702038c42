# expect: stuck-in-user-code (core)
"""A thread computes weights for the loss and dies of a mistake in it; the loop waits for its next answer for ever."""

import queue
import signal
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset


def weigh(asked, answers):
    known = {number: 1.0 / (number + 1) for number in range(20)}
    while True:
        answers.put(known[asked.get()])


def main():
    signal.alarm(150)
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
