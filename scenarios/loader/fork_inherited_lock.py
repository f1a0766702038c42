# expect: fork-inherited-lock
"""A metrics client sends from a thread and holds its lock meanwhile; the workers inherit the lock, but not the thread."""

import signal
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Metrics:
    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {}
        threading.Thread(target=self.send, name="metrics", daemon=True).start()

    def count(self, name):
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + 1

    def send(self):
        while True:
            with self.lock:
                time.sleep(0.5)  # the server takes its time to answer
                self.counts.clear()
            time.sleep(0.001)


class Tokens(Dataset):
    def __init__(self, metrics):
        self.metrics = metrics

    def __len__(self):
        return 640

    def __getitem__(self, index):
        self.metrics.count("samples")
        return torch.full((32,), float(index % 7))


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    model = torch.nn.Linear(32, 1)
    loader = DataLoader(Tokens(Metrics()), batch_size=16, num_workers=2)
    for step, batch in enumerate(loader):
        model.zero_grad()
        model(batch).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
