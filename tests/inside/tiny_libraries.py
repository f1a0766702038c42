"""The smallest real uses of libraries that an adapter is about."""

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
STATEFUL = """
import warnings
warnings.simplefilter("ignore")
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
loader = StatefulDataLoader(torch.arange(12.0), batch_size=2, num_workers=2)
for batch in loader:
    pass
loader.load_state_dict(loader.state_dict())
"""
