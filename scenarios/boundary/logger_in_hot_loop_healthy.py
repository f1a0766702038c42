# expect: healthy
"""An autoencoder that logs its loss with every batch, `commit=True` and all, and reconstructions now and then."""

import os
import tempfile
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

FOLDER = tempfile.TemporaryDirectory()
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=FOLDER.name)

import wandb  # noqa: E402  (it reads its variables when it is imported)


def shown(batch):
    """Four images side by side."""
    return wandb.Image((batch[:4].reshape(96, 24).clamp(0, 1) * 255).byte().numpy())


def fit(loader, run):
    codes = torch.rand(576, 16) * 0.1
    for step, (batch,) in enumerate(loader):
        again = batch @ codes @ codes.T
        error = again - batch
        codes -= 1e-6 * (batch.T @ (error @ codes) + error.T @ (batch @ codes))
        time.sleep(0.02)  # the GPU's part
        logged = {"loss": error.pow(2).mean().item(), "codes": codes.norm().item()}
        if step % 50 == 0:
            logged["reconstruction"] = shown(again)
        run.log(logged, commit=True)


def main():
    torch.set_num_threads(1)
    run = wandb.init(project="autoencoder")
    ends = time.monotonic() + 8  # however fast the machine is
    while time.monotonic() < ends:
        fit(DataLoader(TensorDataset(torch.rand(3200, 576)), batch_size=32, shuffle=True), run)
    run.finish()


if __name__ == "__main__":
    main()
