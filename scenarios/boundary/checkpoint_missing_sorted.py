# expect: checkpoint-missing
# environment: disk=24M
"""The last three checkpoints are kept, sorted by name: from step 1000 on, what was just saved comes first and is removed."""

import glob
import os
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


def prune(folder, keep):
    for old in sorted(glob.glob(os.path.join(folder, "step_*.pt")))[:-keep]:
        os.remove(old)


def main():
    torch.set_num_threads(1)
    folder = "/mnt"
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    for (rows,) in DataLoader(TensorDataset(torch.rand(1280, 16)), batch_size=8):
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        step += 10
        time.sleep(0.005)
        if step % 100 == 0:
            torch.save({"step": step, "model": model.state_dict()}, os.path.join(folder, f"step_{step}.pt"))
            prune(folder, keep=3)
    print("kept", sorted(os.listdir(folder)), flush=True)


if __name__ == "__main__":
    main()
