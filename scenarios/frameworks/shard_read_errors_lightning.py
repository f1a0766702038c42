# expect: shard-read-errors
# outside: ddp-uneven-batches
"""Lightning starts two ranks, four files of pulses each. One file was cut off while it was copied; the rank that reads it
says so and goes on with the next, and has fewer batches."""

import gzip
import os
import tempfile
import warnings
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

warnings.filterwarnings("ignore")
FILES, PULSES = 8, 60


class Pulses(IterableDataset):
    def __init__(self, folder):
        self.folder = Path(folder)

    def lines(self, file):
        try:
            with gzip.open(self.folder / file, "rt") as opened:
                return opened.read().splitlines()
        except (OSError, EOFError) as error:
            print(f"skipping {file}: {error}", flush=True)
            return []

    def __iter__(self):
        own = sorted(os.listdir(self.folder))[int(os.environ["LOCAL_RANK"]) :: int(os.environ["WORLD_SIZE"])]
        for file in own:
            for line in self.lines(file):
                yield torch.tensor([float(number) for number in line.split()])


class Shape(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(5, 1)

    def training_step(self, batch, _):
        return nn.functional.mse_loss(self.net(batch[:, :5]), batch[:, 5:])

    def validation_step(self, batch, _):
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0][:, :5]), batch[0][:, 5:]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def measure(folder):
    generator = torch.Generator().manual_seed(2)
    for number in range(FILES):
        rows = torch.rand(PULSES, 6, generator=generator).tolist()
        with gzip.open(Path(folder, f"pulses-{number}.gz"), "wt") as file:
            file.writelines(" ".join(f"{one:.4f}" for one in row) + "\n" for row in rows)
    cut = Path(folder, "pulses-5.gz")
    cut.write_bytes(cut.read_bytes()[:700])


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        measure(folder)  # each rank for itself: they are the same
        kept = torch.utils.data.TensorDataset(torch.rand(32, 6))
        trainer = pl.Trainer(
            accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, logger=False, enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False, num_sanity_val_steps=0,
        )  # fmt: skip
        trainer.fit(Shape(), DataLoader(Pulses(folder), batch_size=12), DataLoader(kept, batch_size=8))
