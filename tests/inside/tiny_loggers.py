"""The smallest real uses of logging libraries."""

from __future__ import annotations

TENSORBOARD = """
from torch.utils.tensorboard import SummaryWriter
with SummaryWriter(__file__ + ".events") as writer:
    writer.add_scalar("loss/train", 0.5, 3)
"""
WANDB = """
import os
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=os.path.dirname(__file__))
import wandb
with wandb.init(project="tiny") as run:
    run.log({"loss": 0.5, "lr": 0.1}, step=3)
"""
