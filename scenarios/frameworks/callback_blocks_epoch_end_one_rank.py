# expect: callback-blocks-epoch-end
# outside: collectives-out-of-step
"""Two ranks of Lightning; a callback keeps the best weights, and saves them on the first rank only."""

import tempfile
import warnings
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


class KeepBest(pl.Callback):
    def __init__(self, folder):
        self.path = Path(folder) / "best.ckpt"
        self.best = float("inf")

    def on_train_epoch_end(self, trainer, module):
        loss = trainer.callback_metrics["loss"].item()
        if trainer.is_global_zero and loss < self.best:
            self.best = loss
            trainer.save_checkpoint(self.path)  # waits for all ranks at its end


class Wine(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(11, 1)

    def training_step(self, batch, _):
        rows, score = batch
        loss = nn.functional.mse_loss(self.net(rows), score)
        self.log("loss", loss, on_epoch=True, on_step=False)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


if __name__ == "__main__":
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(96, 11), torch.randn(96, 1))
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            accelerator="cpu", devices=2, strategy="ddp_fork", max_epochs=4, logger=False, enable_progress_bar=False,
            enable_model_summary=False, enable_checkpointing=False, callbacks=[KeepBest(folder)],
        )  # fmt: skip
        trainer.fit(Wine(), DataLoader(data, batch_size=8))
