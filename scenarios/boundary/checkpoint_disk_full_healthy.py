# expect: healthy
# environment: disk=24M
"""The same disk: only the newest two checkpoints are kept on it, and each gets its name when it is whole."""

import os

import torch
from torch.utils.data import DataLoader, TensorDataset

FOLDER = "/mnt/checkpoints"


def save(state, epoch):
    old = f"{FOLDER}/epoch-{epoch - 2:02d}.pt"
    if os.path.exists(old):
        os.remove(old)
    torch.save(state, f"{FOLDER}/writing.tmp")
    os.replace(f"{FOLDER}/writing.tmp", f"{FOLDER}/epoch-{epoch:02d}.pt")


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
        save({"epoch": epoch, "model": model.state_dict(), "words": words.state_dict()}, epoch)
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
