# expect: healthy
"""The loss and the learning rate are logged by two places, of which only the second ends the row."""

import os
import tempfile

import torch
from torch.utils.data import DataLoader

FOLDER = tempfile.TemporaryDirectory()
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=FOLDER.name)

import wandb  # noqa: E402  (it reads its variables when it is imported)


def main():
    run = wandb.init(project="speech")
    weight = torch.zeros(16)
    for epoch in range(3):
        for rows in DataLoader(torch.rand(640, 16), batch_size=16, shuffle=True):
            error = rows - weight
            run.log({"train/loss": error.pow(2).mean().item(), "epoch": epoch}, commit=False)
            rate = 0.05 / (epoch + 1)
            weight += rate * error.mean(0)
            run.log({"rate": rate})
    run.finish()


if __name__ == "__main__":
    main()
