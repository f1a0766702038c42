# expect: healthy
# launch: -m torch.distributed.run --nproc-per-node 2
"""Lightning trains on soundings of a lake in eight files, four for each rank, and saves a checkpoint after each epoch."""

import os
import tempfile
import warnings
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

warnings.filterwarnings("ignore")
FILES, ROWS = 8, 64


class Soundings(IterableDataset):
    def __init__(self, folder):
        self.folder = folder

    def __iter__(self):
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        for file in sorted(Path(self.folder).glob("*.npy"))[rank::world]:
            yield from torch.from_numpy(np.load(file))


class Best(pl.Callback):
    """Remembers what no other rank needs to know."""

    def __init__(self):
        self.losses = []

    def on_train_epoch_end(self, trainer, module):
        self.losses.append(trainer.callback_metrics["loss"].item())


class Depth(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 1)

    def training_step(self, batch, _):
        loss = nn.functional.mse_loss(self.net(batch[:, :6]), batch[:, 6:])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def sound(folder):
    rng = np.random.default_rng(5)
    for number in range(FILES):
        np.save(Path(folder, f"sounding-{number}.npy"), rng.normal(size=(ROWS, 7)).astype(np.float32))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sound(folder)  # each rank for itself: they are the same
        trainer = pl.Trainer(
            accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, logger=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[Best(), ModelCheckpoint(folder)],
        )  # fmt: skip
        trainer.fit(Depth(), DataLoader(Soundings(folder), batch_size=16))
