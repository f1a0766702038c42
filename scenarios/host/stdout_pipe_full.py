# expect: stdout-pipe-full
"""A wrapper starts the training with its output in a pipe and waits for its end, but never reads the pipe."""

import signal
import subprocess
import sys


def train():
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(8, 8)
    loader = DataLoader(TensorDataset(torch.rand(1600, 8)), batch_size=16)
    for epoch in range(50):
        for step, (rows,) in enumerate(loader):
            model.zero_grad()
            loss = model(rows).square().mean()
            loss.backward()
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
            norms = " ".join(f"{float(row.norm()):.5f}" for row in model.weight)
            print(f"epoch {epoch:3} step {step:5} loss {loss.item():.6f} norms {norms}", flush=True)


def wrapper():
    signal.alarm(150)
    command = [sys.executable, __file__, "train"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as training:
        print("the training ended with", training.wait())


if __name__ == "__main__":
    train() if sys.argv[1:] == ["train"] else wrapper()
