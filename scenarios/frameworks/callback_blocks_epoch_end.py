# expect: callback-blocks-epoch-end
"""Bird songs: after each epoch a callback renders the confusion matrix and puts it on a share, which takes its time."""

import tempfile
import time
import warnings
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
SPECIES = 5


class Publish(pl.Callback):
    """The share takes 64 bytes at a time."""

    def __init__(self, share):
        self.share = Path(share)

    def on_train_epoch_end(self, trainer, module):
        with (self.share / f"confusion-{trainer.current_epoch}.txt").open("wb") as page:
            content = "\n".join(f"{name} {count}" for name, count in module.confused.items()).encode().ljust(1024)
            for begin in range(0, len(content), 64):
                page.write(content[begin : begin + 64])
                page.flush()
                time.sleep(0.12)


class Songs(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(24, SPECIES)
        self.confused = {}

    def training_step(self, batch, _):
        songs, species = batch
        said = self.net(songs)
        for pair in zip(species.tolist(), said.argmax(1).tolist(), strict=True):
            self.confused[pair] = self.confused.get(pair, 0) + 1
        return nn.functional.cross_entropy(said, species)

    def validation_step(self, batch, _):
        songs, species = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(songs), species))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    songs = TensorDataset(torch.randn(320, 24), torch.randint(SPECIES, (320,)))
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            accelerator="cpu", max_epochs=3, logger=False, enable_progress_bar=False, enable_model_summary=False,
            default_root_dir=folder, callbacks=[Publish(folder)],
        )  # fmt: skip
        trainer.fit(Songs(), DataLoader(songs, batch_size=16, shuffle=True), DataLoader(songs, batch_size=64))
