# expect: healthy
"""Cells cut out of microscope slides, streamed by two workers; the length counts what each of them can fill."""

import tempfile
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info

warnings.filterwarnings("ignore")
CELLS, BATCH = 750, 8


class Cells(IterableDataset):
    """Worker w has every second cell, beginning with w."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        shares = [len(range(worker, self.count, 2)) for worker in range(2)]
        return sum(share // BATCH * BATCH for share in shares)

    def __iter__(self):
        info = get_worker_info()
        for number in range(info.id, self.count, info.num_workers):
            cell = torch.full((16,), number / self.count)
            yield cell, cell.mean()


class Slides(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Cells(CELLS), batch_size=BATCH, num_workers=2, drop_last=True)

    def val_dataloader(self):
        cells = torch.rand(40, 16)
        return DataLoader(TensorDataset(cells, cells.mean(1)), batch_size=BATCH)


class Regressor(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))

    def training_step(self, batch, _):
        cells, means = batch
        return nn.functional.mse_loss(self.net(cells).squeeze(1), means)

    def validation_step(self, batch, _):
        cells, means = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(cells).squeeze(1), means))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(folder, monitor="val_loss")
        trainer = pl.Trainer(
            accelerator="cpu", max_epochs=3, logger=False, enable_progress_bar=False, enable_model_summary=False,
            callbacks=[best],
        )  # fmt: skip
        trainer.fit(Regressor(), datamodule=Slides())
        print("best checkpoint:", best.best_model_path or "none", flush=True)
