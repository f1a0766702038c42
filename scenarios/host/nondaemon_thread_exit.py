# expect: nondaemon-thread-exit
"""Training is done and said so, but an uploader's thread still waits for the next file, and nobody told it to end."""

import queue
import shutil
import signal
import tempfile
import threading
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset


def upload(files, bucket):
    while True:
        shutil.copy(files.get(), bucket)


def main():
    signal.alarm(150)
    folder, bucket = Path(tempfile.mkdtemp()), tempfile.mkdtemp()
    files = queue.Queue()
    threading.Thread(target=upload, args=(files, bucket), name="uploader").start()
    model = torch.nn.Linear(10, 1)
    loader = DataLoader(TensorDataset(torch.rand(400, 10)), batch_size=10, num_workers=2)
    for epoch in range(3):
        for (rows,) in loader:
            model.zero_grad()
            model(rows).mean().backward()
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
        torch.save(model.state_dict(), folder / f"epoch{epoch}.pt")
        files.put(folder / f"epoch{epoch}.pt")
    print("training done", flush=True)


if __name__ == "__main__":
    main()
