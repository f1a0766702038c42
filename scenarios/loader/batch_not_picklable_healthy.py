# expect: healthy
"""The same batches with a function that can be pickled. What gets lost is a remark in a queue of the dataset's own."""

import multiprocessing
import time
from functools import partial

import torch
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self):
        self.remarks = multiprocessing.Queue()

    def __len__(self):
        return 480

    def __getitem__(self, index):
        time.sleep(0.002)
        if index == 40:
            self.remarks.put(
                (index, {"why": lambda: "an odd one"})
            )  # cannot be pickled either, and nobody waits for it
        return torch.arange(5 + index % 11)


def cut(lengths, scores):
    return [one[:length] for one, length in zip(scores, lengths, strict=True)]


def padded(rows):
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {"tokens": tokens, "undo": partial(cut, [len(row) for row in rows])}


def main():
    torch.manual_seed(3)
    model = torch.nn.Embedding(32, 16)
    weights = list(model.parameters())
    loader = DataLoader(Sentences(), batch_size=8, num_workers=2, collate_fn=padded)
    for step, batch in enumerate(loader):
        loss = model(batch["tokens"]).square().mean()
        loss.backward()
        for one in weights:
            one.data -= 0.1 * one.grad
            one.grad = None
        time.sleep(0.02)  # what a larger model would take
        if step % 20 == 0:
            print("step", step, len(batch["undo"](batch["tokens"])), flush=True)


if __name__ == "__main__":
    main()
