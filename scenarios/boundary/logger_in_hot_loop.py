# expect: logger-in-hot-loop
"""An autoencoder whose reconstructions are logged as images with every batch."""

import os
import tempfile
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

FOLDER = tempfile.TemporaryDirectory()
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=FOLDER.name)

import wandb  # noqa: E402  (it reads its variables when it is imported)


def shown(batch):
    """Eight images one below the other, enlarged."""
    pixels = (batch[:8].reshape(192, 24).clamp(0, 1) * 255).byte().numpy()
    return wandb.Image(pixels.repeat(24, axis=0).repeat(24, axis=1))


def fit(loader, run):
    codes = torch.rand(576, 16) * 0.1
    for (batch,) in loader:
        again = batch @ codes @ codes.T
        error = again - batch
        codes -= 1e-6 * (batch.T @ (error @ codes) + error.T @ (batch @ codes))
        time.sleep(0.02)  # the GPU's part
        run.log({"loss": error.pow(2).mean().item(), "reconstruction": shown(again)})


def main():
    torch.set_num_threads(1)
    run = wandb.init(project="autoencoder")
    ends = time.monotonic() + 8  # however fast the machine is
    while time.monotonic() < ends:
        fit(DataLoader(TensorDataset(torch.rand(2560, 576)), batch_size=32, shuffle=True), run)
    run.finish()


if __name__ == "__main__":
    main()
