# expect: checkpoint-disk-full
# environment: disk=24M
"""Every epoch leaves a checkpoint on a small disk, until one no longer fits; what torch says of it does not say so."""

import os

import torch
from torch.utils.data import DataLoader, TensorDataset

FOLDER = "/mnt/checkpoints"


def main():
    os.makedirs(FOLDER, exist_ok=True)
    torch.set_num_threads(1)
    model = torch.nn.Linear(32, 8)
    words = torch.nn.Embedding(60_000, 32)  # as they are: only the layer above is trained
    loader = DataLoader(TensorDataset(torch.rand(160, 32)), batch_size=16, shuffle=True)
    for epoch in range(8):
        for (rows,) in loader:
            loss = model(rows).square().mean()
            for weight, grad in zip(
                model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
            ):
                weight.data -= 0.01 * grad
        torch.save(
            {"epoch": epoch, "model": model.state_dict(), "words": words.state_dict()}, f"{FOLDER}/epoch-{epoch:02d}.pt"
        )
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
