# expect: healthy
"""The wrapper reads the pipe, and is away now and then: it fills up until then, and it moves."""

import subprocess
import sys
import time


def train():
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(8, 8)
    loader = DataLoader(TensorDataset(torch.rand(1600, 8)), batch_size=16)
    for epoch in range(12):
        for step, (rows,) in enumerate(loader):
            model.zero_grad()
            loss = model(rows).square().mean()
            loss.backward()
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
            norms = " ".join(f"{float(row.norm()):.5f}" for row in model.weight) * 8
            time.sleep(0.004)  # what an accelerator would take
            print(f"epoch {epoch:3} step {step:5} loss {loss.item():.6f} norms {norms}", flush=True)


def wrapper():
    command = [sys.executable, __file__, "train"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as training:
        rest = time.monotonic() + 2.5
        while piece := training.stdout.read1(16384):
            if time.monotonic() >= rest:
                print(piece.decode().splitlines()[-1][:60], flush=True)
                time.sleep(1.2)  # a dashboard is brought up to date
                rest = time.monotonic() + 2.5
        print("the training ended with", training.wait())


if __name__ == "__main__":
    train() if sys.argv[1:] == ["train"] else wrapper()
