# expect: healthy
"""The same client, made anew in each worker: its lock is held for long once, by a thread that lives and lets go."""

import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Metrics:
    def __init__(self, first_answer=0.5):
        self.lock = threading.Lock()
        self.counts = {}
        self.answer = first_answer
        threading.Thread(target=self.send, name="metrics", daemon=True).start()
        time.sleep(0.1)

    def count(self, name):
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + 1

    def send(self):
        while True:
            with self.lock:
                time.sleep(self.answer)
                self.counts.clear()
            self.answer = 0.01
            time.sleep(0.2)


class Tokens(Dataset):
    def __init__(self, metrics):
        self.metrics = metrics

    def __len__(self):
        return 640

    def __getitem__(self, index):
        self.metrics.count("samples")
        return torch.full((32,), float(index % 7))


def own_client(worker):
    # A connection of the worker's own, and the server is slow to greet.
    torch.utils.data.get_worker_info().dataset.metrics = Metrics(first_answer=18)


def main():
    model = torch.nn.Linear(32, 1)
    loader = DataLoader(Tokens(Metrics()), batch_size=16, num_workers=2, worker_init_fn=own_client)
    for step, batch in enumerate(loader):
        model.zero_grad()
        model(batch).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
