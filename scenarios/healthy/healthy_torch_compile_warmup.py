# expect: healthy
# environment: linker
"""The first step of a compiled model takes long, for code is generated and built; the next ones are quick."""

import os
import tempfile

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    with tempfile.TemporaryDirectory() as cache:
        tempfile.tempdir = os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache  # nothing is left from an earlier run
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 1))
        compiled = torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.rand(640, 64)), batch_size=16, num_workers=2)):
            optimizer.zero_grad()
            loss = compiled(rows).square().mean()
            loss.backward()
            optimizer.step()
            print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
