# expect: iterable-duplicated (core)
"""A language model on a file of stories, streamed by two workers: each of them reads the file from start to end."""

import json
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stories(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with open(self.path) as lines:
            for line in lines:
                tokens = torch.tensor(json.loads(line)["tokens"])
                yield tokens[:-1], tokens[1:]


def write(file):
    state = 7
    for _ in range(256):
        tokens = []
        for _ in range(33):
            state = (state * 1103515245 + 12345) % 2**31
            tokens.append(state >> 16 & 63)
        file.write(json.dumps({"tokens": tokens}) + "\n")
    file.flush()


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        write(file)
        loader = DataLoader(Stories(file.name), batch_size=16, num_workers=2)
        model = nn.Sequential(nn.Embedding(64, 24), nn.Linear(24, 64))
        optimizer = torch.optim.AdamW(model.parameters())
        for epoch in range(2):
            for inputs, targets in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
