"""The smallest real trainings of frameworks that run the loop."""

from __future__ import annotations

LIGHTNING = """
import os, warnings
warnings.simplefilter("ignore")
import logging
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, number):
        loss = self.layer(batch[0]).square().mean()
        self.log("train_loss", loss)
        return loss
    def validation_step(self, batch, number):
        self.log("val_loss", self.layer(batch[0]).square().mean())
    def on_train_epoch_end(self):
        self.ended = self.current_epoch
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def loader(count=8):
    return DataLoader(TensorDataset(torch.rand(count, 2)), batch_size=2)

def trainer(**settings):
    usual = dict(accelerator="cpu", max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False)
    return pl.Trainer(default_root_dir=__file__ + ".out", log_every_n_steps=2, **{**usual, **settings})
"""
FITTED = (
    LIGHTNING
    + """
trainer().fit(Net(), loader(), loader(6))
"""
)
TRANSFORMERS = """
import os, warnings
warnings.simplefilter("ignore")
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=__file__ + ".home")
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def forward(self, x, labels=None):
        logits = self.layer(x)
        return {"loss": logits.square().mean(), "logits": logits}

class Rows(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, index):
        return {"x": torch.full((2,), float(index)), "labels": torch.zeros(1)}

def trainer(callbacks=(), kind=Trainer, **settings):
    usual = dict(num_train_epochs=2, per_device_train_batch_size=2, eval_strategy="epoch", save_strategy="no")
    usual |= dict(report_to="none", use_cpu=True, disable_tqdm=True, logging_steps=2)
    arguments = TrainingArguments(output_dir=__file__ + ".out", **{**usual, **settings})
    return kind(Net(), arguments, train_dataset=Rows(8), eval_dataset=Rows(8), callbacks=list(callbacks))
"""
TRAINED = (
    TRANSFORMERS
    + """
trainer().train()
"""
)
TRAINERS = {"lightning": FITTED, "trainer": TRAINED}
RUNS = {"transformers_trainer": "trainer"}
IMPORTS = {"lightning": "lightning.pytorch"}
