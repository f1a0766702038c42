# expect: healthy
"""The same uploader is told to end: it sends what is left, piece by piece, and the process ends after it."""

import queue
import tempfile
import threading
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

PIECE = 4096


def upload(files, bucket):
    while (path := files.get()) is not None:
        content = path.read_bytes()
        with (bucket / path.name).open("wb", buffering=0) as copy:
            for start in range(0, len(content), PIECE):
                copy.write(content[start : start + PIECE])
                time.sleep(0.1)  # the line is slow


def main():
    folder, bucket = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    files = queue.Queue()
    threading.Thread(target=upload, args=(files, bucket), name="uploader").start()
    model = torch.nn.Linear(10, 4400)
    loader = DataLoader(TensorDataset(torch.rand(400, 10)), batch_size=10, num_workers=2)
    for epoch in range(3):
        for (rows,) in loader:
            model.zero_grad()
            model(rows).mean().backward()
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
        torch.save(model.state_dict(), folder / f"epoch{epoch}.pt")
        files.put(folder / f"epoch{epoch}.pt")
    files.put(None)
    print("training done, uploading", flush=True)


if __name__ == "__main__":
    main()
