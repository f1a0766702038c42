# expect: slow-checkpoint
"""The model is saved to a slow mounted bucket after every epoch, and nothing is trained meanwhile."""

import io
import os
import tempfile
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

PIECE = 1 << 18


class Bucket(io.FileIO):
    """Each request goes to the other end and back."""

    def write(self, content):
        time.sleep(0.05)
        return super().write(memoryview(content).cast("B")[:PIECE])


class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(20_000, 64).requires_grad_(False)
        self.head = torch.nn.Linear(64, 4)

    def forward(self, tokens):
        return self.head(self.words(tokens).mean(1))


def step(model, tokens):
    loss = model(tokens).square().mean()
    weight, bias = model.head.weight, model.head.bias
    for one, grad in zip((weight, bias), torch.autograd.grad(loss, (weight, bias)), strict=True):
        one.data -= 0.01 * grad
    time.sleep(0.02)


def main():
    torch.set_num_threads(1)
    model = Reader()
    loader = DataLoader(TensorDataset(torch.randint(20_000, (240, 16))), batch_size=8)
    with tempfile.TemporaryDirectory() as mounted:
        for epoch in range(5):
            for (tokens,) in loader:
                step(model, tokens)
            with io.BufferedWriter(Bucket(os.path.join(mounted, f"epoch-{epoch}.pt"), "w"), PIECE) as file:
                torch.save({"model": model.state_dict(), "epoch": epoch}, file)
            print("epoch", epoch, "saved", flush=True)


if __name__ == "__main__":
    main()
