# expect: checkpoint-missing (core)
"""Checkpoints are saved by a pool of threads into a folder that nobody has made; nobody asks the pool how it went."""

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    model = torch.nn.Linear(16, 4)
    loader = DataLoader(TensorDataset(torch.rand(96, 16)), batch_size=8)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        for epoch in range(6):
            for (rows,) in loader:
                loss = model(rows).square().mean()
                loss.backward()
                for weight in model.parameters():
                    weight.data -= 0.1 * weight.grad
                    weight.grad = None
                time.sleep(0.01)
            state = {name: value.clone() for name, value in model.state_dict().items()}
            pool.submit(torch.save, state, os.path.join(folder, "checkpoints", f"epoch_{epoch}.pt"))
            print(f"epoch {epoch}: loss {loss.item():.4f}, checkpoint saved", flush=True)


if __name__ == "__main__":
    main()
