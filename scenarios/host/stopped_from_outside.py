# expect: stopped-from-outside (core)
"""A training that saves every 20 steps is ended with SIGTERM by another program, as `scancel` does it."""

import os
import subprocess
import tempfile

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    checkpoint = os.path.join(tempfile.mkdtemp(), "newest.pt")
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    for _ in range(50):
        for (rows,) in DataLoader(TensorDataset(torch.rand(320, 8)), batch_size=16):
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
            step += 1
            if step % 20 == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
            if step == 57:
                subprocess.run(["kill", "-TERM", str(os.getpid())], check=True)


if __name__ == "__main__":
    main()
