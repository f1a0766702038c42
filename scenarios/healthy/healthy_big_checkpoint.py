# expect: healthy (core)
"""A checkpoint is written to slow network storage in the middle of training, piece by piece."""

import os
import tempfile
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

PIECE = 1 << 16


class NetworkFile:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT)

    def write(self, content):
        view = memoryview(content).cast("B")
        for start in range(0, len(view), PIECE):
            os.write(self.fd, view[start : start + PIECE])
            os.fsync(self.fd)
            time.sleep(0.02)
        return len(view)

    def flush(self):
        os.fsync(self.fd)


def main():
    model = torch.nn.Sequential(torch.nn.Linear(64, 2048), torch.nn.Linear(2048, 4000))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.rand(80, 64)), batch_size=8, num_workers=2)
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(2):
            for (rows,) in loader:
                optimizer.zero_grad()
                model(rows).mean().backward()
                optimizer.step()
            print("epoch", epoch, "done", flush=True)
            if epoch == 0:
                torch.save(model.state_dict(), NetworkFile(f"{folder}/model.pt"))
                print("saved", flush=True)


if __name__ == "__main__":
    main()
