# expect: wandb-rows-lost (core)
"""Somebody has read that `commit=True` waits for an upload, and has every step logged with `commit=False` instead."""

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
            weight += 0.05 * error.mean(0)
            run.log({"train/loss": error.pow(2).mean().item(), "epoch": epoch}, commit=False)
    run.finish()


if __name__ == "__main__":
    main()
