# expect: healthy
"""A classifier of short texts, trained by transformers; after each epoch a callback hands its report to a thread."""

import tempfile
import threading
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Texts(Dataset):
    def __init__(self, count, seed):
        self.tokens = torch.randint(1, 100, (count, 12), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        return {"tokens": tokens, "labels": tokens.sum() % 2}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(100, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens, labels=None):
        logits = self.head(self.words(tokens))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Publish(TrainerCallback):
    """The share is slow, and nobody waits for it."""

    def __init__(self, share):
        self.share = Path(share)
        self.thread = None

    def write(self, epoch, text):
        time.sleep(0.5)
        (self.share / f"report-{epoch}.txt").write_text(text)

    def on_epoch_end(self, args, state, control, **kwargs):
        if self.thread is not None:
            self.thread.join()
        text = f"{state.global_step} steps, {state.log_history[-1:]}"
        self.thread = threading.Thread(target=self.write, args=(round(state.epoch), text))
        self.thread.start()

    def on_train_end(self, args, state, control, **kwargs):
        self.thread.join()


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=3, per_device_train_batch_size=16, eval_strategy="epoch",
            save_strategy="epoch", save_total_limit=1, logging_steps=10, report_to="none", disable_tqdm=True,
            use_cpu=True,
        )  # fmt: skip
        trainer = Trainer(
            Classifier(), arguments, train_dataset=Texts(640, 1), eval_dataset=Texts(64, 2), callbacks=[Publish(folder)]
        )
        trainer.train()
        print(trainer.evaluate()["eval_loss"], flush=True)
