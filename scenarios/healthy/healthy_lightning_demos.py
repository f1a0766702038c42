# expect: healthy
"""The models and data that Lightning itself comes with, put through everything its Trainer does."""

import tempfile
import warnings

import lightning.pytorch as pl
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.demos.boring_classes import (
    BoringDataModule,
    BoringDataModuleNoLen,
    BoringModel,
    ManualOptimBoringModel,
)


class Watched(BoringModel):
    def validation_step(self, batch, batch_idx):
        found = super().validation_step(batch, batch_idx)
        self.log("val_loss", found["x"])
        return found


def trainer(folder, **settings):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    return pl.Trainer(default_root_dir=folder, accelerator="cpu", **quiet, **settings)


def main():
    with tempfile.TemporaryDirectory() as folder:
        kept = ModelCheckpoint(folder, monitor="val_loss")
        first = trainer(folder, max_epochs=4, callbacks=[kept, EarlyStopping("val_loss", patience=3)])
        first.fit(Watched(), datamodule=BoringDataModule())
        first.test(datamodule=BoringDataModule(), ckpt_path=kept.best_model_path, weights_only=False)
        first.predict(datamodule=BoringDataModule())
        again = trainer(folder, max_epochs=6, limit_train_batches=20, check_val_every_n_epoch=2)
        again.fit(Watched(), datamodule=BoringDataModule())
        other = trainer(folder, max_epochs=2, limit_train_batches=16, limit_val_batches=4, enable_checkpointing=False)
        model = ManualOptimBoringModel()
        other.fit(model, datamodule=BoringDataModuleNoLen())
        other.validate(model, datamodule=BoringDataModuleNoLen())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
