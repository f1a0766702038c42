# expect: healthy
"""The best model and the newest two are kept: files are renamed, replaced and removed, and one folder was not there."""

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils.data import DataLoader, TensorDataset

BEST_BY = [0.9, 0.7, 0.6, 0.65, 0.64, 0.66, 0.61, 0.63]  # of the epochs' validation


def save(state, path):
    try:
        torch.save(state, path + ".tmp")
    except RuntimeError:  # the first time
        os.makedirs(os.path.dirname(path))
        torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    model = torch.nn.Linear(16, 4)
    loader = DataLoader(TensorDataset(torch.rand(96, 16)), batch_size=8)
    best = 1.0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        for epoch, result in enumerate(BEST_BY):
            for (rows,) in loader:
                loss = model(rows).square().mean()
                loss.backward()
                for weight in model.parameters():
                    weight.data -= 0.1 * weight.grad
                    weight.grad = None
                time.sleep(0.01)
            state = {name: value.clone() for name, value in model.state_dict().items()}
            pool.submit(save, state, os.path.join(folder, "checkpoints", f"epoch_{epoch}.pt")).result()
            if result < best:
                best = result
                pool.submit(save, state, os.path.join(folder, "checkpoints", "best.pt")).result()
            if epoch >= 2:
                os.remove(os.path.join(folder, "checkpoints", f"epoch_{epoch - 2}.pt"))
            print(f"epoch {epoch}: loss {loss.item():.4f}, validation {result}", flush=True)


if __name__ == "__main__":
    main()
