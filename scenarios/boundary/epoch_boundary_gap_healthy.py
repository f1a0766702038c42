# expect: healthy
"""After every epoch the model is evaluated, for as long as an epoch takes, and the pictures are drawn meanwhile."""

import subprocess
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        for (rows,) in loader:
            model(rows).square().mean()
            time.sleep(0.02)
    model.train()


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 2)
    loader = DataLoader(TensorDataset(torch.rand(320, 16)), batch_size=8)
    held_out = DataLoader(TensorDataset(torch.rand(320, 16)), batch_size=8)
    drawing = None
    for epoch in range(4):
        for (rows,) in loader:
            loss = model(rows).square().mean()
            loss.backward()
            for weight in model.parameters():
                weight.data -= 0.1 * weight.grad
                weight.grad = None
            time.sleep(0.02)
        if drawing is not None:
            drawing.wait()
        drawing = subprocess.Popen(["sleep", "1"])
        evaluate(model, held_out)
        print("epoch", epoch, "done", flush=True)
    drawing.wait()


if __name__ == "__main__":
    main()
