# expect: batch-not-picklable
"""Sentences of different lengths: the collate function hands over, with the batch, a function that undoes its padding."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __len__(self):
        return 480

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.arange(5 + index % 11)


def padded(rows):
    lengths = [len(row) for row in rows]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    if len(set(lengths)) == 1:
        return {"tokens": tokens, "undo": None}
    return {
        "tokens": tokens,
        "undo": lambda scores: [one[:length] for one, length in zip(scores, lengths, strict=True)],
    }


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
        print("step", step, float(loss), flush=True)


if __name__ == "__main__":
    main()
