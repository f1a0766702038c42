# expect: healthy
# launch: -m torch.distributed.run --nproc-per-node 2
"""transformers' Trainer on letters in eight files, with a loader of the user's own: four files for each rank."""

import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset
from transformers import Trainer, TrainingArguments

FILES, LETTERS, WORDS = 8, 48, 12


class Letters(IterableDataset):
    def __init__(self, folder, rank, world):
        self.files = sorted(Path(folder).glob("*.npy"))[rank::world]

    def __len__(self):
        return LETTERS * len(self.files)

    def __iter__(self):
        for file in self.files:
            for words in np.load(file):
                yield {"words": torch.from_numpy(words), "labels": int(words.sum() % 2)}


class Kept(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return {"words": torch.arange(index, index + WORDS) % 99 + 1, "labels": index % 2}


class Polite(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(100, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, words, labels=None):
        logits = self.head(self.words(words))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Own(Trainer):
    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=self.args.train_batch_size)


def write(folder):
    rng = np.random.default_rng(9)
    for number in range(FILES):
        np.save(Path(folder, f"letters-{number}.npy"), rng.integers(1, 100, (LETTERS, WORDS)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        write(folder)  # each rank for itself: they are the same
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=3, per_device_train_batch_size=16, eval_strategy="epoch",
            save_strategy="no", logging_steps=50, report_to="none", disable_tqdm=True, use_cpu=True, ddp_backend="gloo",
        )  # fmt: skip
        letters = Letters(folder, dist.get_rank(), dist.get_world_size())
        Own(Polite(), arguments, train_dataset=letters, eval_dataset=Kept()).train()
