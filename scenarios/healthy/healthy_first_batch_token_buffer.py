# expect: healthy
"""The loader tokenises documents in the main process until its buffer is full; only the first batch takes long."""

import collections
import itertools
import random
import tempfile

import torch

B, T = 16, 128
TEXT = "the training of a model begins with data and the data with somebody who wrote it down again and again"


def encode(text):
    """Byte pairs, merged in pure Python, the way a tutorial does it."""
    tokens = list(text.encode())
    for new in range(256, 290):
        pairs = collections.Counter(itertools.pairwise(tokens))
        best = max(pairs, key=pairs.get)
        merged, at = [], 0
        while at < len(tokens):
            found = tuple(tokens[at : at + 2]) == best
            merged.append(new if found else tokens[at])
            at += 2 if found else 1
        tokens = merged
    return tokens


def token_batches(path, fill):
    buffer = collections.deque()
    with open(path) as documents:
        while True:
            while len(buffer) < fill:
                buffer.extend(encode(documents.readline()))
            fill = B * T + 1
            tokens = torch.tensor([buffer.popleft() for _ in range(B * T + 1)])
            yield tokens[:-1].view(B, T), tokens[1:].view(B, T)


def main():
    words = TEXT.split()
    with tempfile.NamedTemporaryFile("w") as file:
        for _ in range(4000):
            file.write(" ".join(random.choices(words, k=150)) + "\n")
        file.flush()
        model = torch.nn.Sequential(torch.nn.Embedding(512, 64), torch.nn.Linear(64, 512))
        optimizer = torch.optim.AdamW(model.parameters())
        loader = token_batches(file.name, fill=300 * B * T)
        for step in range(30):
            inputs, targets = next(loader)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            loss.backward()
            optimizer.step()
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
