# expect: hf-filelock
"""Another job holds the lock of the dataset cache and does nothing more; this one waits for it before it can train."""

import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path

import torch
from filelock import FileLock
from torch.utils.data import DataLoader, TensorDataset


def other_job(lock, parent):
    with FileLock(lock):
        while os.getppid() == parent:
            time.sleep(1)


def load_dataset(cache):
    data = cache / "corpus.pt"
    with FileLock(cache / "corpus.lock"):
        if not data.exists():
            torch.save(torch.rand(640, 12), data)
    return TensorDataset(torch.load(data))


def main():
    signal.alarm(150)
    cache = Path(tempfile.mkdtemp()) / "huggingface" / "datasets"
    cache.mkdir(parents=True)
    multiprocessing.Process(target=other_job, args=(cache / "corpus.lock", os.getpid()), daemon=True).start()
    time.sleep(1)
    print("loading the dataset", flush=True)
    loader = DataLoader(load_dataset(cache), batch_size=16, num_workers=2)
    model = torch.nn.Linear(12, 1)
    for (rows,) in loader:
        model.zero_grad()
        model(rows).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad


if __name__ == "__main__":
    main()
