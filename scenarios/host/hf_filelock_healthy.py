# expect: healthy
"""Another job holds the lock while it writes the dataset into the cache; then both can use it."""

import multiprocessing
import tempfile
import time
from pathlib import Path

import torch
from filelock import FileLock
from torch.utils.data import DataLoader, TensorDataset

ROWS = 640


def other_job(cache):
    with FileLock(cache / "corpus.lock"), (cache / "corpus.incomplete").open("wb", buffering=0) as file:
        for _ in range(ROWS // 5):
            file.write(torch.rand(5, 12).numpy().tobytes())
            time.sleep(0.1)
        (cache / "corpus.incomplete").rename(cache / "corpus.f32")


def load_dataset(cache):
    with FileLock(cache / "corpus.lock"):
        content = bytearray((cache / "corpus.f32").read_bytes())
    return TensorDataset(torch.frombuffer(content, dtype=torch.float32).view(ROWS, 12))


def main():
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name) / "huggingface" / "datasets"
        cache.mkdir(parents=True)
        multiprocessing.Process(target=other_job, args=(cache,), daemon=True).start()
        time.sleep(1)
        print("loading the dataset", flush=True)
        loader = DataLoader(load_dataset(cache), batch_size=16, num_workers=2)
    model = torch.nn.Linear(12, 1)
    for (rows,) in loader:
        model.zero_grad()
        model(rows).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
    print("done")


if __name__ == "__main__":
    main()
